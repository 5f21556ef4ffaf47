"""A primitive: one operation of the IR, and everything the system knows of it, in one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlafront.core import errors, tracing, typed_numbers
from xlafront.core.ir import subprograms
from xlafront.core.memo import Alive, Memo
from xlafront.core.refs import AbstractRef
from xlafront.core.sharding_types import Sums, types_over_meshes
from xlafront.core.tracing import joint_vma

# Every primitive there is, for the registries of `xlafront.interpreters`, which are views over the records.
known_primitives: Alive[Primitive] = Alive()


class Primitive:
    """One operation.

    The fields are the answers to the questions that the rest of the system asks:

    - `abstract(*avals, **params)`: the type of the result (a list of types when `multiple_results`).
    - `lowerings[platform or None](ctx, *operands, **params)`: StableHLO for it.
    - `jvp(primals, tangents, **params)`: result and its directional derivative.
    - `transpose(cotangents, *operands, **params)`: for operations linear in an operand.
    - `batch(operands, dims, **params)`: the operation over one more dimension.
    - `partial_eval`, `dce`, `linearize`: only for operations that contain programs. Those that call one and do nothing else
      are `ProgramCall`s, which need no rules.
    - `depends(operands, **params)`: which results depend on the marked operands, for operations that contain programs and
      do more than call one.
    - `stage(trace, args, params)`: only for operations whose parameters are Python functions; what a program under
      construction does in place of writing the operation down, or None.
    - `sharding_rule(name, operands, result, params)`: the mesh axes that split each dimension of the result; `sums`: in which
      operands it is linear, for sums over mesh axes that are still to be made (`sharding_types` says more of both).
    - `discharge(primitive, refs, operands, params, keep_rules)`: only for operations that take references; see
      `core.discharge`.
    - `effects(*avals, **params)`: what it does besides computing; `own_impl(*args, **params)`: how it runs eagerly when
      that is not by compiling it.

    `bind` applies the primitive under whatever trace is current.
    """

    __slots__ = ("name", "multiple_results", "abstract", "lowerings", "jvp", "transpose", "batch", "linearize",
                 "partial_eval", "dce", "effects", "own_impl", "memoise", "broadcasts_scalars", "shown_as", "types", "eager",
                 "sharding_rule", "sums", "cost", "discharge", "__weakref__", "__dict__")

    stage: Callable | None = None
    # What it makes of a number that a program holds in place, to be held there too: (literal, params) -> literal or None.
    of_number: Callable | None = None
    # The values of parameters that calls leave out and equations name, as libraries read them there.
    defaults: dict[str, Any] = {}
    # How an equation is printed, where not as `results = name[params] operands`: (results, none is read, operands, equation).
    printed_as: Callable | None = None
    depends: Callable | None = None
    # For operations that contain programs, which results may have a tangent where the marked operands have: (marks, **params).
    moves_with: Callable | None = None
    # How it runs its programs one by one, to find the operation in them that made a NaN: (run, operands, params), where
    # `run(jaxpr, *operands)` returns what a program returns, or raises.
    steps: Callable | None = None
    # Whether it does nothing but call the program in its parameter `jaxpr`.
    calls_program = False
    # Whether its transpose rule is asked where all cotangents are zero too, as that of a user's rule may give what is none.
    pulls_back_zeros = False
    by_function = False  # whether it is lowered as a Python function of arrays, in which there may be loops
    contracts = False  # whether it multiplies and sums over dimensions, as matrix products and convolutions do
    # Whether shardings among these parameters say on which devices a program runs that contains it: (**params). None: they do.
    binds_devices: Callable[..., bool] | None = None
    # Whether, with these parameters, it goes between the devices of this process and those of all: (**params).
    changes_groups: Callable | None = None
    # Whether it has to see values outside of `jit`: a rule calls a function of the user's, or it moves them between devices.
    runs_eagerly = False
    # The context in which its programs are traced again when they are taken apart (`core.parts`): (**params).
    in_scope: Callable | None = None
    of_high_types = False  # whether its operands may consist of others (`core.parts`), where `own_impl` is what it computes

    # The program that it is run as, where it contains another one that says less: (operands' types, params).
    as_program: Callable | None = None

    # What extensions ask of any primitive, and of ours only `CallPrimitive` answers with yes.
    call_primitive = False
    map_primitive = False
    # In place of `batch`, for rules of extensions that ask for the name of the mapped axis: (trace, operands, dims).
    batch_with_axis: Callable | None = None
    # For collectives: the operation over the axis that vmap names, (trace, operands, dims, **params) -> (results, dims).
    over_axis: Callable | None = None
    # Whether `abstract` says over which axes of a `shard_map` the results vary: else over those that an operand does.
    own_vma = False
    lays_out = False  # whether it says in which order the elements of a value lie in memory
    own_types = False  # whether `abstract` says all that types say of meshes and memories
    # The mesh axes that split what it sums, of (operands' types, params): over these `out_sharding` may leave the sum open.
    summed_axes: Callable | None = None
    moves = False  # whether it brings its operand to the sharding that is a parameter
    writes = False  # whether it puts values into its first operand, in whose memory the result is
    # What traces of extensions get in place of an operation that only we have: the result, computed by those for which they
    # have rules, or None where this one is such: (*operands, **params).
    for_extensions: Callable | None = None
    custom_rule = False  # whether it calls a function with a rule that replaces what a transformation would do
    takes_refs_twice = False  # whether two operands may be the same reference
    ref_primitive = False  # whether it takes references, as operations that contain programs do
    # What it does with random keys (`core.key_use`): it "reads" them, it "hands on" those of the first operand, it "moves"
    # them into its results, or a rule (equation, use_of_program). None: a program it contains says so, else all are spent.
    key_use: str | Callable | None = None
    is_high = staticmethod(lambda *avals, **params: False)

    def __init__(self, name: str, *, abstract: Callable | None = None, lower: Callable | None = None,
                 jvp: Callable | None = None, transpose: Callable | None = None, batch: Callable | None = None,
                 multiple_results: bool = False, effects: Callable | None = None, impl: Callable | None = None,
                 linearize: Callable | None = None, dce: Callable | None = None, partial_eval: Callable | None = None,
                 memoise: bool = True, broadcasts_scalars: bool = False, shown_as: str | None = None,
                 sharding_rule: Callable | None = None, sums: Sums | None = None, cost: str | None = None,
                 discharge: Callable | None = None):
        self.name = name
        self.multiple_results = multiple_results
        self.abstract = abstract
        self.lowerings: dict[str | None, Callable] = {} if lower is None else {None: lower}
        self.jvp, self.transpose, self.batch = jvp, transpose, batch
        self.linearize, self.partial_eval, self.dce = linearize, partial_eval, dce
        self.effects = effects
        self.discharge = discharge
        self.own_impl = impl
        self.memoise = memoise  # whether `abstract` is a pure function of hashable types and parameters
        self.broadcasts_scalars = broadcasts_scalars  # elementwise: lowering gives its rule operands of the result's shape
        self.sharding_rule, self.sums = sharding_rule, sums
        self.cost = cost  # of computing it again: "cheap" is less than keeping the result, "heavy" is worth a call of its own
        self.shown_as = shown_as or name  # the user's word for it in messages
        self.types = Memo(4096)  # of `abstract`
        self.eager = Memo(1024)  # compiled kernels by parameters, filled by the eager path
        known_primitives.add(self)

    def bind(self, *args, **params):
        return tracing.thread.trace.process(self, args, params)

    @property
    def impl(self) -> Callable:
        """How it runs eagerly, whatever is being traced: `impl(*args, **params)`."""
        return self.own_impl or self.evaluate

    @impl.setter
    def impl(self, impl: Callable) -> None:
        self.own_impl = impl

    def evaluate(self, *args, **params):
        with tracing.current_trace(tracing.eval_trace):
            return tracing.eval_trace.process(self, args, params)

    def result_types(self, avals: tuple, params: dict[str, Any]):
        """`abstract`, memoised. Hot: once a traced equation."""
        if self.abstract is None:
            raise NotImplementedError(f"the primitive {self.shown_as} cannot be traced: it has no rule for the types of its "
                                      f"results. Give it one with {self.name}.def_abstract_eval(rule), where rule(*avals, "
                                      f"**params) returns the type of the result.")
        if not self.memoise:
            return self.checked_types(self.types_of(avals, params))
        key = (avals, *params.items()) if params else avals
        try:
            return self.types[key]
        except KeyError:
            return self.types.keep(key, self.checked_types(self.types_of(avals, params)))
        except TypeError:  # a parameter that cannot be hashed
            return self.checked_types(self.types_of(avals, params))

    def checked_types(self, types):
        if isinstance(types, (list, tuple)) is self.multiple_results:
            return types
        wanted, given = ("a sequence of types", "one type") if self.multiple_results else ("one type", "a sequence of types")
        raise ValueError(f"the rule for the types of the results of the primitive {self.shown_as} returned {given}, "
                         f"{errors.short(types)}, where {wanted} is needed: its multiple_results is {self.multiple_results}.")

    def types_of(self, avals: tuple, params: dict[str, Any]):
        """`abstract`; inside of a `shard_map` results vary over the axes that the operands do, which must be the same."""
        for aval in avals:
            if not aval.plain:
                break
        else:
            if not params or params.get("sharding") is None and params.get("out_sharding") is None:
                return self.abstract(*avals, **params)
        if self.own_types or self.sharding_rule is None and next(subprograms(params), None) is not None:
            return self.abstract(*avals, **params)
        for aval in avals:
            if type(aval) is AbstractRef and not self.ref_primitive:
                raise errors.reference_as_array(self.shown_as, aval)
        return self.types_over_meshes(avals, params)

    def types_over_meshes(self, avals: tuple, params: dict[str, Any]):
        """What types of results say of meshes and memories."""
        return types_over_meshes(self, avals, params)

    def varying_types(self, avals: tuple, params: dict[str, Any]):
        """What they say of the manual axes of a mesh."""
        types = self.abstract(*avals, **params)
        if self.own_vma or not any([aval.vma for aval in avals]):
            return types
        joint = joint_vma(avals)
        if self.multiple_results:
            return [t.update(vma=joint) for t in types]
        return types.update(vma=joint)

    def lowering_for(self, platform: str) -> Callable:
        rule = self.lowerings.get(platform) or self.lowerings.get(None)
        if rule is None:
            known = ", ".join(sorted(p for p in self.lowerings if p)) or "no platform"
            raise NotImplementedError(
                f"{self.shown_as} cannot run on {platform}: it has a lowering for {known}. Register one with "
                f"xlafront.interpreters.mlir.register_lowering, or say how it runs outside of jit with its def_impl.")
        return rule

    # The words in which programs that define primitives of their own know these fields.

    def def_impl(self, impl):
        """Say how the primitive runs outside of compiled code; usable as a decorator."""
        def run(*args, **params):
            return impl(*[_as_in_compiled_code(x, self) for x in args], **params)

        self.own_impl = run
        self.eager.clear()
        return impl

    def def_abstract_eval(self, abstract):
        """Say what type the result has; usable as a decorator."""
        # Rules from outside may depend on more than their arguments say (1 and True are equal as parameters).
        self.memoise = False
        self.types.clear()
        self.abstract = abstract
        return abstract

    def def_effectful_abstract_eval(self, abstract):
        """As `def_abstract_eval`, for a rule that returns `(types, effects)`."""
        self.def_abstract_eval(lambda *avals, **params: abstract(*avals, **params)[0])
        self.effects = lambda *avals, **params: frozenset(abstract(*avals, **params)[1])
        return abstract

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def def_bind_with_trace(self, bind_with_trace):
        """Replace how the primitive is applied in a trace: `bind_with_trace(trace, args, params)`."""
        def bind(*args, **params):
            return bind_with_trace(tracing.thread.trace, args, params)

        self.__dict__["bind"] = bind
        self.__dict__["bind_with_trace"] = lambda trace, args, *rest: bind_with_trace(trace, args, rest[-1])
        return bind_with_trace

    def bind_with_trace(self, trace, args, *avals_and_params):
        """Apply the primitive in a given trace: `(trace, args, params)`, or with the types of `args` before `params`."""
        with tracing.current_trace(trace):
            return trace.process(self, tuple(args), avals_and_params[-1])

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters for `bind(*args, **parameters)`, from those of an equation."""
        return dict(params)

    def abstract_eval(self, *avals, **params):
        """`(types of the results, effects)`."""
        effects = frozenset() if self.effects is None else self.effects(*avals, **params)
        return self.result_types(avals, params), effects

    def is_effectful(self, params: dict[str, Any]) -> bool:
        return self.effects is not None

    def __repr__(self):
        return self.name

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(f"the primitive {self.name} cannot be pickled: pickle the function that uses it, or its export")


def _as_in_compiled_code(x, primitive: Primitive):
    """An operand, as it is passed to how a user's primitive runs: with the dtype that it has in compiled code."""
    aval = tracing.aval_of(x, primitive.shown_as)
    if type(x) in (int, float, complex):
        return typed_numbers.typed(x, aval.dtype)
    return x.astype(aval.dtype) if isinstance(x, (np.ndarray, np.generic)) and x.dtype != aval.dtype else x
