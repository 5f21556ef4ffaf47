// Runs an exported program without Python: by any plugin with PJRT's C API, whose header is all that this file needs.
//
//     python -m xlafront export model.py:predict 'float32[2,3]' 'float32[3,4]' --out predict.mlir --platforms cpu
//     g++ -std=c++17 -I FOLDER_OF_THE_HEADER run.cc -o run -ldl
//     ./run PLUGIN.so predict.mlirbc 2x3:x.bin 3x4:w.bin
//
// The arguments are files of float32 in the machine's order of bytes, with their sizes in front (":s.bin" is a scalar). For each
// result there is a line with its type, as a number of PJRT_Buffer_Type, and its sizes, and a file result0.bin, result1.bin, ...
// PLUGIN.so runs the program where it is for: the CPU's is in the Python package xla-cpu-pjrt, and the header beside it.

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "pjrt_c_api.h"

const PJRT_Api* api;

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "run: " << why << "\n";
  std::exit(1);
}

void check(PJRT_Error* error) {
  if (error == nullptr) return;
  PJRT_Error_Message_Args text{PJRT_Error_Message_Args_STRUCT_SIZE, nullptr, error};
  api->PJRT_Error_Message(&text);
  fail(std::string(text.message, text.message_size));  // which belongs to the error: this ends the process with it
}

void wait(PJRT_Event* event) {
  PJRT_Event_Await_Args await{PJRT_Event_Await_Args_STRUCT_SIZE, nullptr, event};
  check(api->PJRT_Event_Await(&await));
  PJRT_Event_Destroy_Args destroy{PJRT_Event_Destroy_Args_STRUCT_SIZE, nullptr, event};
  check(api->PJRT_Event_Destroy(&destroy));
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void load(const char* plugin) {
  void* library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(dlerror());
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) fail(std::string(plugin) + " has no GetPjrtApi: it is no plugin of PJRT");
  api = get();
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR) fail("the plugin has another version of PJRT's C API");
  PJRT_Plugin_Initialize_Args initialize{PJRT_Plugin_Initialize_Args_STRUCT_SIZE};
  check(api->PJRT_Plugin_Initialize(&initialize));
}

PJRT_LoadedExecutable* compile(PJRT_Client* client, std::string module) {
  const std::string format = "mlir";  // the portable artifact, or its text
  PJRT_Program program{PJRT_Program_STRUCT_SIZE, nullptr, module.data(), module.size(), format.data(), format.size()};
  // A CompileOptionsProto for one device: executable_build_options (field 3) of num_replicas (4) and num_partitions (5), 1 each.
  const std::string options = "\x1a\x04\x20\x01\x28\x01";
  PJRT_Client_Compile_Args args{PJRT_Client_Compile_Args_STRUCT_SIZE, nullptr, client, &program, options.data(), options.size()};
  check(api->PJRT_Client_Compile(&args));
  return args.executable;
}

PJRT_Buffer* argument(PJRT_Client* client, PJRT_Device* device, const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) fail("arguments are given as SIZES:FILE (2x3:x.bin), not " + text);
  std::vector<int64_t> sizes;
  size_t bytes = sizeof(float);
  std::istringstream given(text.substr(0, colon));
  for (std::string size; std::getline(given, size, 'x');) {
    sizes.push_back(std::strtoll(size.c_str(), nullptr, 10));
    bytes *= sizes.back();
  }
  const std::string data = content(text.substr(colon + 1));
  if (data.size() != bytes) fail(text + " has " + std::to_string(data.size()) + " bytes, not " + std::to_string(bytes));
  PJRT_Client_BufferFromHostBuffer_Args args{PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE};
  args.client = client;
  args.data = data.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = sizes.data();
  args.num_dims = sizes.size();
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  args.device = device;
  check(api->PJRT_Client_BufferFromHostBuffer(&args));
  wait(args.done_with_host_buffer);
  return args.buffer;
}

size_t number_of_results(PJRT_LoadedExecutable* loaded) {
  PJRT_LoadedExecutable_GetExecutable_Args get{PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE, nullptr, loaded};
  check(api->PJRT_LoadedExecutable_GetExecutable(&get));
  PJRT_Executable_NumOutputs_Args count{PJRT_Executable_NumOutputs_Args_STRUCT_SIZE, nullptr, get.executable};
  check(api->PJRT_Executable_NumOutputs(&count));
  PJRT_Executable_Destroy_Args destroy{PJRT_Executable_Destroy_Args_STRUCT_SIZE, nullptr, get.executable};
  check(api->PJRT_Executable_Destroy(&destroy));
  return count.num_outputs;
}

void destroy(PJRT_Buffer* buffer) {
  PJRT_Buffer_Destroy_Args args{PJRT_Buffer_Destroy_Args_STRUCT_SIZE, nullptr, buffer};
  check(api->PJRT_Buffer_Destroy(&args));
}

void write(PJRT_Buffer* buffer, const std::string& path) {
  PJRT_Buffer_ToHostBuffer_Args copy{PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE, nullptr, buffer};
  check(api->PJRT_Buffer_ToHostBuffer(&copy));  // no memory yet: how much it takes
  std::vector<char> data(copy.dst_size);
  copy.dst = data.data();
  check(api->PJRT_Buffer_ToHostBuffer(&copy));
  wait(copy.event);
  std::ofstream(path, std::ios::binary).write(data.data(), data.size());
  PJRT_Buffer_ElementType_Args type{PJRT_Buffer_ElementType_Args_STRUCT_SIZE, nullptr, buffer};
  check(api->PJRT_Buffer_ElementType(&type));
  PJRT_Buffer_Dimensions_Args shape{PJRT_Buffer_Dimensions_Args_STRUCT_SIZE, nullptr, buffer};
  check(api->PJRT_Buffer_Dimensions(&shape));
  std::cout << path << " type " << type.type << " sizes";
  for (size_t i = 0; i < shape.num_dims; ++i) std::cout << " " << shape.dims[i];
  std::cout << "\n";
}

int main(int count, char** words) {
  if (count < 3) fail("say what to run: run PLUGIN.so MODULE.mlirbc [SIZES:FILE ...]");
  load(words[1]);
  PJRT_Client_Create_Args create{PJRT_Client_Create_Args_STRUCT_SIZE};
  check(api->PJRT_Client_Create(&create));
  PJRT_Client_AddressableDevices_Args devices{PJRT_Client_AddressableDevices_Args_STRUCT_SIZE, nullptr, create.client};
  check(api->PJRT_Client_AddressableDevices(&devices));
  PJRT_LoadedExecutable* executable = compile(create.client, content(words[2]));

  std::vector<PJRT_Buffer*> arguments;
  for (int i = 3; i < count; ++i) arguments.push_back(argument(create.client, devices.addressable_devices[0], words[i]));
  std::vector<PJRT_Buffer*> results(number_of_results(executable));
  PJRT_ExecuteOptions options{PJRT_ExecuteOptions_STRUCT_SIZE};
  PJRT_Buffer* const* all_arguments[] = {arguments.data()};  // for each device
  PJRT_Buffer** all_results[] = {results.data()};
  PJRT_Event* done[1] = {};
  PJRT_LoadedExecutable_Execute_Args execute{PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE};
  execute.executable = executable;
  execute.options = &options;
  execute.argument_lists = all_arguments;
  execute.num_devices = 1;
  execute.num_args = arguments.size();
  execute.output_lists = all_results;
  execute.device_complete_events = done;
  check(api->PJRT_LoadedExecutable_Execute(&execute));
  wait(done[0]);

  for (size_t i = 0; i < results.size(); ++i) write(results[i], "result" + std::to_string(i) + ".bin");
  for (PJRT_Buffer* buffer : arguments) destroy(buffer);
  for (PJRT_Buffer* buffer : results) destroy(buffer);
  PJRT_LoadedExecutable_Destroy_Args destroy_executable{PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE, nullptr, executable};
  check(api->PJRT_LoadedExecutable_Destroy(&destroy_executable));
  PJRT_Client_Destroy_Args destroy_client{PJRT_Client_Destroy_Args_STRUCT_SIZE, nullptr, create.client};
  check(api->PJRT_Client_Destroy(&destroy_client));
}
