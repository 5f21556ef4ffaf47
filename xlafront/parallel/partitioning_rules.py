"""Sharding rules: which dimensions of an operation's operands and results are sharded together.

A rule names the factor of each dimension: dimensions with the same factor are sharded alike. `SdyShardingRule` is such a rule,
`parse` reads one from a string ("i j, j k -> i k"), and `SizedRule` formats it for operands of given shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

BATCHING = "…"  # all leading dimensions that a mapping does not name
KINDS = ("reduction_factors", "need_replication_factors", "permutation_factors")
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid factor name: use a letter, followed by letters, digits and underscores.")


class CompoundFactor(tuple):
    """The factors of a dimension that is composed of several, major factors first.

    Args:
        factors: Names of the factors.

    Example:
        >>> CompoundFactor("b", "c")
        ('b', 'c')
    """

    def __new__(cls, *factors):
        if len(factors) < 2:
            raise ValueError(
                f"a CompoundFactor has at least two factors, got {factors}. Pass the name of a single factor instead.")
        for factor in factors:
            if not isinstance(factor, str):
                raise ValueError(f"the factors of a CompoundFactor are names, got {factor!r} of type {type(factor).__name__}.")
            if factor.startswith(BATCHING):
                raise ValueError(
                    f"a CompoundFactor has factors of one dimension, but {BATCHING} stands for several dimensions. Use names.")
            _check_name(factor)
        return tuple.__new__(cls, factors)


class ArrayMapping(tuple):
    """The factor of each dimension of an operand or result: a name or a `CompoundFactor`.

    Args:
        dim_mappings: Factor of each dimension. The first may be `BATCHING`, for any number of leading dimensions, or `BATCHING
            + "1"`
            and so on if there are several different ones.

    Example:
        >>> ArrayMapping(BATCHING, CompoundFactor("b", "c"), "d")
        ('…', ('b', 'c'), 'd')
    """

    def __new__(cls, *dim_mappings):
        for i, entry in enumerate(dim_mappings):
            if isinstance(entry, CompoundFactor):
                continue
            if not isinstance(entry, str):
                raise ValueError(f"an ArrayMapping has a name or a CompoundFactor for each dimension, got {entry!r} of type "
                                 f"{type(entry).__name__}.")
            if not entry.startswith(BATCHING):
                _check_name(entry)
            elif not (entry == BATCHING or entry[1:].isdecimal()):
                raise ValueError(
                    f"{entry!r} is not a valid name of leading dimensions: {BATCHING} may be followed by a number only.")
            elif i:
                raise ValueError(f"the leading dimensions ({BATCHING}, or ... in text) come first in an ArrayMapping, got "
                                 f"{dim_mappings}.")
        return tuple.__new__(cls, dim_mappings)

    def factors(self) -> Iterator[str]:
        """Yield the names of the factors, with compound factors expanded."""
        for entry in self:
            if isinstance(entry, CompoundFactor):
                yield from entry
            elif not entry.startswith(BATCHING):
                yield entry


class SdyShardingRule:
    """A rule of which dimensions of an operation's operands and results are sharded together.

    Without further declaration, a factor can be sharded over devices without communication.

    Args:
        operand_mappings: `ArrayMapping` of each operand.
        result_mappings: `ArrayMapping` of each result.
        reduction_factors: Factors that are summed over: partial results are added.
        need_replication_factors: Factors that are never sharded.
        permutation_factors: Factors whose shards are exchanged between devices.
        factor_sizes: Sizes of factors that appear in compound factors only.

    Example:
        >>> SdyShardingRule((ArrayMapping("i", "j"), ArrayMapping("j", "k")), (ArrayMapping("i", "k"),),
        ...                 reduction_factors=("j",))
        SdyShardingRule((('i', 'j'), ('j', 'k')), (('i', 'k'),), {} reduction_factors=('j',))
    """

    def __init__(self, operand_mappings: tuple[ArrayMapping, ...], result_mappings: tuple[ArrayMapping, ...], *,
                 reduction_factors: tuple[str, ...] = (), need_replication_factors: tuple[str, ...] = (),
                 permutation_factors: tuple[str, ...] = (), **factor_sizes: int):
        self.operand_mappings = tuple([_mapping(m) for m in operand_mappings])
        self.result_mappings = tuple([_mapping(m) for m in result_mappings])
        self.reduction_factors = _names("reduction_factors", reduction_factors)
        self.need_replication_factors = _names("need_replication_factors", need_replication_factors)
        self.permutation_factors = _names("permutation_factors", permutation_factors)
        self.factor_sizes = factor_sizes
        self._check()

    def _check(self) -> None:
        mappings = (*self.operand_mappings, *self.result_mappings)
        used = {name for m in mappings for name in m.factors()}
        single_factors = {entry for m in mappings for entry in m if isinstance(entry, str)}
        for kind, group in (("operand", self.operand_mappings), ("result", self.result_mappings)):
            for i, m in enumerate(group):
                names = [*m.factors()]
                duplicates = [name for name in names if names.count(name) > 1]
                if duplicates:
                    raise ValueError(f"the sharding rule has the factor {duplicates[0]!r} twice in its {kind} {i}, {m}: the "
                                     f"dimensions of an array are sharded over different axes. Use different factors.")
        seen: set[str] = set()
        for kind in KINDS:
            for name in getattr(self, kind):
                if name not in used:
                    raise ValueError(f"{kind} has {name!r}, which is not in the sharding rule {self._text()}. Its factors "
                                     f"are {', '.join(sorted(used)) or 'none'}.")
                if name in seen:
                    raise ValueError(f"the factor {name!r} is named twice: a factor may be in only one of {', '.join(KINDS)}.")
                seen.add(name)
        results = {name for m in self.result_mappings for name in m.factors()}
        for name in self.reduction_factors:
            if name in results:
                raise ValueError(f"reduction_factors has {name!r}, which is a dimension of a result of {self._text()}: results "
                                 f"do not have the factors that are summed over.")
        for name, size in self.factor_sizes.items():
            if not isinstance(size, int) or isinstance(size, bool):
                raise TypeError(f"the size of the factor {name!r} must be an int, got {size!r} of type {type(size).__name__}.")
            if name not in used:
                raise ValueError(f"a size is given for the factor {name!r}, which is not in the sharding rule "
                                 f"{self._text()}.")
            if name in single_factors:
                raise ValueError(f"a size is given for the factor {name!r}, whose size is that of a dimension in "
                                 f"{self._text()}. Leave it out.")
        for name in sorted(used - single_factors):
            if name not in self.factor_sizes:
                raise ValueError(f"the factor {name!r} of the sharding rule {self._text()} appears in compound factors "
                                 f"only, so that its size is unknown: pass {name}=size.")

    def _text(self) -> str:
        return f"{_side_text(self.operand_mappings)} -> {_side_text(self.result_mappings)}"

    def __repr__(self):
        special = "".join(f" {kind}={getattr(self, kind)}" for kind in KINDS if getattr(self, kind))
        return f"SdyShardingRule({self.operand_mappings}, {self.result_mappings}, {self.factor_sizes}{special})"


def _mapping(entries) -> ArrayMapping:
    if isinstance(entries, ArrayMapping):
        return entries
    if isinstance(entries, str) or not isinstance(entries, (tuple, list)):
        raise ValueError(f"a sharding rule has an ArrayMapping for each operand and result, got {entries!r} of type "
                         f"{type(entries).__name__}.")
    return ArrayMapping(*entries)


def _names(kind: str, names) -> tuple[str, ...]:
    if not isinstance(names, (tuple, list)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{kind} must be a tuple of factor names, got {names!r}.")
    return tuple(names)


def _side_text(mappings: Sequence[ArrayMapping]) -> str:
    def text(entry):
        return f"({' '.join(entry)})" if isinstance(entry, CompoundFactor) else entry.replace(BATCHING, "...")

    return ", ".join(" ".join(map(text, m)) for m in mappings)


# Parsing


def parse(text: str, **options) -> SdyShardingRule:
    """Parse a rule such as `"... i j, j k -> ... i k"`; compound factors are in parentheses."""
    if not isinstance(text, str):
        raise TypeError(f"a sharding rule is text, an SdyShardingRule or a function that returns one, got {text!r} of type "
                        f"{type(text).__name__}.")
    sides = text.split("->")
    if len(sides) != 2:
        raise ValueError(f"the sharding rule {text!r} must have one -> between operands and results, as in 'i j, j k -> i k'.")
    operands, results = [tuple([_parse_array(part, text) for part in side.split(",")]) for side in sides]
    return SdyShardingRule(operands, results, **options)


_TOKEN = re.compile(r"\s*(?:(?P<dots>\.\.\.\d*)|(?P<name>\w+)|(?P<open>\()|(?P<close>\))|(?P<other>\S))", re.ASCII)


def _parse_array(text: str, rule_text: str) -> ArrayMapping:
    entries: list[Any] = []
    group: list[str] | None = None
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        word = token[kind] if kind else ""
        if kind == "open" and group is None:
            group = []
        elif kind == "close" and group is not None:
            entries.append(CompoundFactor(*group))
            group = None
        elif kind == "dots" and not entries and group is None:
            entries.append(BATCHING + word[3:])
        elif kind == "dots":
            raise ValueError(
                f"the sharding rule {rule_text!r} has ... after other dimensions in {text.strip()!r}: it stands for "
                             f"the leading ones.")
        elif kind == "name":
            _check_name(word)
            (entries if group is None else group).append(word)
        elif kind == "other":
            raise ValueError(f"the sharding rule {rule_text!r} has the character {word!r} in {text.strip()!r}: rules have only "
                             f"names, (), ..., commas and one ->.")
        else:
            raise ValueError(f"the sharding rule {rule_text!r} has an unbalanced {word} in {text.strip()!r}.")
    if group is not None:
        raise ValueError(f"the sharding rule {rule_text!r} has an unbalanced ( in {text.strip()!r}.")
    return ArrayMapping(*entries)


# For operands of given shapes


class SizedRule:
    """A rule for given shapes: the numbers of the factors of each dimension of each array, and the sizes of the factors."""

    def __init__(self, rule: SdyShardingRule, operands: Sequence[tuple[int, ...]], results: Sequence[tuple[int, ...]],
                 title: str):
        self.sizes: list[int] = []
        self.special: dict[str, list[int]] = {}
        numbers: dict[Any, int] = {}
        lengths: dict[str, int] = {}
        self.arrays: tuple[list, list] = ([], [])

        def number(factor, size: int) -> int:
            n = numbers.setdefault(factor, len(self.sizes))
            if n == len(self.sizes):
                self.sizes.append(size)
            self.sizes[n] = min(self.sizes[n], size)
            return n

        for kind, mappings, shapes, dimensions in (("operand", rule.operand_mappings, operands, self.arrays[0]),
                                                   ("result", rule.result_mappings, results, self.arrays[1])):
            rule_title = f"{title} is {rule._text()!r}"
            if len(mappings) != len(shapes):
                raise ValueError(
                    f"{rule_title}, for {len(mappings)} {kind}(s), but the function has {len(shapes)}, of the shapes "
                                 f"{', '.join(map(str, shapes)) or 'none'}. Give a list of factors for each array.")
            dimensions.extend([self._dimensions(rule, mapping, shape, f"{rule_title}: its {kind} {i}", number, lengths)
                               for i, (mapping, shape) in enumerate(zip(mappings, shapes))])
        for kind in KINDS:
            self.special[kind] = sorted(numbers[name] for name in getattr(rule, kind))

    @staticmethod
    def _dimensions(rule, mapping, shape, title: str, number, lengths) -> list[list[int]]:
        entries: list[Any] = list(mapping)
        if entries and isinstance(entries[0], str) and entries[0].startswith(BATCHING):
            key = entries.pop(0)
            count = len(shape) - len(entries)
            if count < 0:
                raise ValueError(f"{title} has at least {len(entries)} dimension(s), the array has the shape {shape}.")
            if lengths.setdefault(key, count) != count:
                raise ValueError(f"{title} has {key.replace(BATCHING, '...')} for {count} dimension(s) of the shape {shape}, "
                                 f"where it was for {lengths[key]} before. Leading dimensions that differ have different "
                                 f"names, ...1 and ...2.")
            entries = [*[(key, d) for d in range(count)], *entries]
        elif len(entries) != len(shape):
            raise ValueError(f"{title} has {len(entries)} dimension(s), the array has {len(shape)}, of the shape {shape}.")
        dimensions = []
        for entry, size in zip(entries, shape):
            if not isinstance(entry, CompoundFactor):
                dimensions.append([number(entry, size)])
                continue
            dimensions.append([number(name, rule.factor_sizes.get(name, size)) for name in entry])
        return dimensions

    def check_compounds(self, operands, results, title: str) -> None:
        """Raise if the factors of a dimension do not multiply to its size."""
        for kind, arrays, shapes in zip(("operand", "result"), self.arrays, (operands, results)):
            for i, (array, shape) in enumerate(zip(arrays, shapes)):
                for dimension, (factors, size) in enumerate(zip(array, shape)):
                    product = math.prod([self.sizes[n] for n in factors])
                    if len(factors) > 1 and product != size:
                        raise ValueError(
                            f"{title} makes dimension {dimension} of {kind} {i} of factors of sizes "
                            f"{' x '.join(str(self.sizes[n]) for n in factors)} = {product}, but in the shape {shape} it has "
                            f"size {size}.")

    def add_batch(self, size: int, operand_dims: Sequence[int | None], result_dims: Sequence[int | None]) -> None:
        """Add a batch dimension."""
        n = len(self.sizes)
        self.sizes.append(size)
        for arrays, dims in zip(self.arrays, (operand_dims, result_dims)):
            for array, d in zip(arrays, dims):
                if d is not None:
                    array.insert(d, [n])

    def add_unsharded(self, operands: Sequence[tuple[int, ...]], results: Sequence[tuple[int, ...]]) -> None:
        """Add trailing dimensions that are never sharded, such as the words of keys."""
        for arrays, shapes in zip(self.arrays, (operands, results)):
            for array, shape in zip(arrays, shapes):
                for size in shape:
                    array.append([len(self.sizes)])
                    self.special["need_replication_factors"].append(len(self.sizes))
                    self.sizes.append(size)

    def text(self) -> str:
        """Format the rule for the compiler: `([i, j], [j, k])->([i, k]) {i=8, j=16, k=4} reduction={j}`."""
        def side(arrays):
            return ", ".join(f"[{', '.join(''.join(map(_symbol, factors)) for factors in array)}]" for array in arrays)

        sizes = ", ".join(f"{_symbol(n)}={size}" for n, size in enumerate(self.sizes))
        special = "".join(f" {word}={{{', '.join(map(_symbol, self.special[kind]))}}}" for kind, word in zip(
            KINDS, ("reduction", "need_replication", "permutation")) if self.special[kind])
        return f"({side(self.arrays[0])})->({side(self.arrays[1])}){f' {{{sizes}}}' if sizes else ''}{special}"


def _symbol(n: int) -> str:
    """Return the symbol of a factor: i to z, then z_1, z_2."""
    return chr(ord("i") + n) if n < 18 else f"z_{n - 17}"
