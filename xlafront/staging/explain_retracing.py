"""Why a function was traced again, in words: the setting `explain_cache_misses`."""

from __future__ import annotations

from collections.abc import Sequence

from xlafront.core import tree


def explain_miss(name: str, signature: tuple, past: Sequence[tuple], debug_info) -> str:
    """The nearest signature seen before, and what is different now; signatures are (statics, tree, types, settings)."""
    place = f"{name} ({debug_info.location})" if debug_info.location else name
    if not past:
        return f"{place} is traced for the first time."
    changes = min((_differences(signature, old, debug_info) for old in reversed(past)), key=len)
    if not changes:
        return f"{place} is traced again for a signature that it has seen: its caches were cleared."
    return f"{place} is traced again: " + "; ".join(changes) + "."


def _differences(new: tuple, old: tuple, debug_info) -> list[str]:
    found = []
    old_statics = dict(old[0])
    for key, value in new[0]:
        if key not in old_statics:
            found.append(f"static argument {key} is given now ({value.value!r})")
        elif old_statics[key] != value:
            found.append(f"static argument {key} changed from {old_statics[key].value!r} to {value.value!r}")
    found += [f"static argument {key} is left out now" for key in old_statics if key not in dict(new[0])]
    if new[1] != old[1]:
        before, now = (t.unflatten(range(t.num_leaves)) for t in (old[1], new[1]))
        found.append(f"the structure of the arguments changed: {tree.first_difference(before, now)}")
        return found
    for i, (a, b) in enumerate(zip(old[2], new[2])):
        if a is b:
            continue
        argument = debug_info.arg_names[i]
        if a.shape != b.shape:
            found.append(f"argument {argument} changed its shape from {a.shape} to {b.shape}")
        if a.dtype != b.dtype:
            found.append(f"argument {argument} changed its dtype from {a.dtype} to {b.dtype}")
        if a.shape == b.shape and a.dtype == b.dtype:
            found.append(f"argument {argument} changed from {_weakness(a)} to {_weakness(b)}")
    if new[3] != old[3]:
        found.append("a setting changed that programs depend on (x64, matmul precision, debugging, ...)")
    return found


def _weakness(aval) -> str:
    return "a Python scalar (weak type)" if aval.weak_type else "an array (strong type)"
