// Kernels for the tests of ffi_call: each shows one thing that a call of a foreign function can do.
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = scale * x
ffi::Error Scale(float scale, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = scale * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ScaleHandler, Scale,
    ffi::Ffi::Bind().Attr<float>("scale").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// The sum and the largest element of each vector: two results, over any number of leading dimensions.
ffi::Error SumAndMax(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> sum, ffi::ResultBuffer<ffi::F32> largest) {
  if (x.dimensions().size() == 0) return ffi::Error::InvalidArgument("SumAndMax takes vectors");
  size_t n = x.dimensions().back(), rows = x.element_count() / n;
  for (size_t r = 0; r < rows; ++r) {
    float total = 0, most = x.typed_data()[r * n];
    for (size_t i = 0; i < n; ++i) {
      float v = x.typed_data()[r * n + i];
      total += v;
      if (v > most) most = v;
    }
    sum->typed_data()[r] = total;
    largest->typed_data()[r] = most;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(SumAndMaxHandler, SumAndMax,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// How many elements each operand has: what vmap_method makes of operands that have no batch.
ffi::Error Counts(ffi::RemainingArgs args, ffi::ResultBuffer<ffi::S32> counts) {
  for (size_t i = 0; i < counts->element_count(); ++i) {
    int32_t total = 0;
    for (size_t j = 0; j < args.size(); ++j) total = 100 * total + (int32_t)args.get<ffi::AnyBuffer>(j)->element_count();
    counts->typed_data()[i] = total;
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CountsHandler, Counts, ffi::Ffi::Bind().RemainingArgs().Ret<ffi::Buffer<ffi::S32>>());

// What lies in memory, byte after byte.
ffi::Error AsStored(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> y) {
  std::memcpy(y->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(AsStoredHandler, AsStored, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// Attributes of every kind, as numbers.
ffi::Error Attributes(bool flag, int64_t whole, double number, int32_t whole32, float number32, std::string_view text,
                      ffi::Span<const int32_t> many, ffi::Span<const double> numbers, ffi::Dictionary more,
                      ffi::ResultBuffer<ffi::F32> y) {
  float* out = y->typed_data();
  out[0] = flag;
  out[1] = whole;
  out[2] = number;
  out[3] = whole32;
  out[4] = number32;
  out[5] = text.size() * 1000 + text[0];
  out[6] = many.size();
  for (int32_t v : many) out[6] += 10 * v;
  out[7] = numbers.size();
  for (double v : numbers) out[7] += 10 * v;
  auto inner = more.get<int64_t>("inner");
  auto name = more.get<std::string_view>("name");
  if (inner.has_error()) return inner.error();
  if (name.has_error()) return name.error();
  out[8] = *inner + name->size();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(AttributesHandler, Attributes,
    ffi::Ffi::Bind().Attr<bool>("flag").Attr<int64_t>("whole").Attr<double>("number").Attr<int32_t>("whole32")
        .Attr<float>("number32").Attr<std::string_view>("text").Attr<ffi::Span<const int32_t>>("many")
        .Attr<ffi::Span<const double>>("numbers").Attr<ffi::Dictionary>("more").Ret<ffi::Buffer<ffi::F32>>());

// Adds one in place: the second result says whether operand and result share their memory.
ffi::Error AddOne(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, ffi::ResultBuffer<ffi::PRED> same) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] + 1;
  *same->typed_data() = x.typed_data() == y->typed_data();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(AddOneHandler, AddOne,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::PRED>>());

// Has an effect: it counts how often it ran.
static int64_t runs = 0;
extern "C" int64_t Runs() { return runs; }
ffi::Error Count(ffi::RemainingArgs, ffi::RemainingRets) {
  ++runs;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CountHandler, Count, ffi::Ffi::Bind().RemainingArgs().RemainingRets());

// Says what went wrong.
ffi::Error Fail(ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  return ffi::Error(ffi::ErrorCode::kOutOfRange, "the kernel says no");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(FailHandler, Fail, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

// A call with a state of its own, made once a compiled program: how often it ran since.
struct State {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  explicit State(int32_t start) : calls(start) {}
  int32_t calls;
};
ffi::TypeId State::id = {};
ffi::TypeInfo State::info = ffi::MakeTypeInfo<State>();
ffi::ErrorOr<std::unique_ptr<State>> MakeState(int32_t start) { return std::make_unique<State>(start); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(StateInstantiate, MakeState, ffi::Ffi::BindInstantiate().Attr<int32_t>("start"));
ffi::Error Calls(State* state, ffi::ResultBuffer<ffi::S32> y) {
  *y->typed_data() = ++state->calls;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(StateExecute, Calls, ffi::Ffi::Bind().Ctx<ffi::State<State>>().Ret<ffi::Buffer<ffi::S32>>());
extern "C" void* StateTypeId() { return &State::id; }
extern "C" void* StateTypeInfo() { return &State::info; }

// What a kernel for CUDA is given, a stream and memory to work in: compiled here, called nowhere.
struct CUstream_st;
ffi::Error OnStream(CUstream_st* stream, int32_t device, ffi::ScratchAllocator scratch, ffi::Buffer<ffi::F32> x,
                    ffi::ResultBuffer<ffi::F32> y) {
  std::optional<void*> memory = scratch.Allocate(x.size_bytes());
  if (!memory.has_value() || device < 0) return ffi::Error(ffi::ErrorCode::kResourceExhausted, "no memory");
  return stream == nullptr ? ffi::Error::Internal("no stream") : ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(OnStreamHandler, OnStream,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<CUstream_st*>>().Ctx<ffi::DeviceOrdinal>().Ctx<ffi::ScratchAllocator>()
        .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>(), {ffi::Traits::kCmdBufferCompatible});
