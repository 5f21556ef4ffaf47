"""Guards on transfers: each direction, each level, for a thread and for the process."""

import gc
import logging
import threading

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.errors import JaxRuntimeError

pytestmark = pytest.mark.usefixtures("few_objects")

GUARDS = {"all": xf.transfer_guard, "host_to_device": xf.transfer_guard_host_to_device,
          "device_to_device": xf.transfer_guard_device_to_device, "device_to_host": xf.transfer_guard_device_to_host}


def memory_spaces():
    if len(xf.devices()) < 2:
        pytest.fail("these tests need two devices")
    return xf.devices()[:2]


def over_both(*spec):
    return xf.sharding.NamedSharding(xf.sharding.Mesh(np.array(memory_spaces()), "i"), xf.P(*spec))


HOST, HERE = np.ones(3, "float32"), xnp.arange(3.0)
SHARDED = xf.device_put(np.ones(4, "float32"), over_both("i"))
# An operation, the direction in which it copies, and True if the copy is explicit.
TRANSFERS = {
    "jit of a NumPy array": (lambda: xf.jit(lambda x: x * 2)(HOST), "host_to_device", False),
    "jit of a number": (lambda: xf.jit(lambda x: x * 2)(1.5), "host_to_device", False),
    "asarray": (lambda: xnp.asarray(HOST), "host_to_device", False),
    "asarray on another device": (lambda: xnp.asarray(HOST, device=memory_spaces()[1]), "host_to_device", False),
    "array over two devices": (lambda: xnp.array([1.0, 2.0], device=over_both()), "host_to_device", False),
    "ones": (lambda: xnp.ones(3), "host_to_device", False),
    "zeros_like": (lambda: xnp.zeros_like(HERE), "host_to_device", False),
    "an operator with a number": (lambda: HERE + 1, "host_to_device", False),
    "an index": (lambda: HERE[1], "host_to_device", False),
    "device_put of a NumPy array": (lambda: xf.device_put(HOST), "host_to_device", True),
    "device_put to another device": (lambda: xf.device_put(HERE, memory_spaces()[1]), "device_to_device", True),
    "device_put over two devices": (lambda: xf.device_put(HERE, over_both()), "device_to_device", True),
    "jit with in_shardings": (lambda: xf.jit(lambda x: x, in_shardings=over_both())(HERE), "device_to_device", False),
    "the value of a sharded array": (lambda: np.asarray(xf.jit(lambda x: x * 2)(SHARDED)), "device_to_host", False),
    "device_get of a sharded array": (lambda: xf.device_get(xf.jit(lambda x: x * 2)(SHARDED)), "device_to_host", True),
    "an operator of arrays": (lambda: HERE + HERE, None, False),
    "a function": (lambda: xnp.sin(HERE), None, False),
    "from_dlpack": (lambda: xnp.from_dlpack(HOST.astype(float)), None, False),
    "rows": (lambda: list(HERE), None, False),
}


@pytest.mark.cpu_only
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("what", TRANSFERS)
def test_guard_levels(what, guard):
    run, direction, requested = TRANSFERS[what]
    run()
    guarded = direction is not None and guard in ("all", direction)
    for level in ("allow", "disallow", "disallow_explicit"):
        refused = guarded and level != "allow" and (level == "disallow_explicit" or not requested)
        with GUARDS[guard](level):
            if refused:
                with pytest.raises(JaxRuntimeError, match=f"(?i)disallowed.*{direction.replace('_', '-')}"):
                    run()
            else:
                run()
    run()


def test_guards_of_threads_and_process():
    f = xf.jit(lambda x: x + 1)
    f(HOST)
    seen = []

    def other():
        try:
            seen.append(f(HOST) is not None)
        except JaxRuntimeError:
            seen.append(False)

    def other_thread():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return seen.pop()

    with xf.transfer_guard("disallow"):
        assert other_thread()
    xf.config.update("transfer_guard", "disallow")
    try:
        assert not other_thread()
        with xf.transfer_guard("allow"):
            f(HOST)
        with pytest.raises(JaxRuntimeError):
            f(HOST)
        assert xf.config.transfer_guard_device_to_host == "disallow"
    finally:
        xf.config.update("transfer_guard", "allow")
    assert other_thread()


def test_innermost_guard_takes_precedence():
    f = xf.jit(lambda x: x + 1)
    with xf.transfer_guard("disallow"), xf.transfer_guard_host_to_device("allow"):
        f(HOST)
    with xf.transfer_guard_host_to_device("disallow"), xf.transfer_guard("allow"):
        f(HOST)
    with pytest.raises(ValueError, match="disallow_explicit"):
        xf.transfer_guard("never")


@pytest.mark.cpu_only
def test_log(caplog):
    with xf.transfer_guard("log"), caplog.at_level(logging.WARNING, "xlafront"):
        xf.jit(lambda x: x, in_shardings=over_both())(HERE)
    assert any("device-to-device" in message for message in caplog.messages)


def test_garbage_collection_guard(capfd):
    def collected() -> str:
        class Holder:
            pass

        holder = Holder()
        holder.itself, holder.array = holder, xf.numpy.ones(3) + 1
        del holder
        gc.collect()
        return capfd.readouterr().err

    gc.collect()
    assert not collected()
    with xf.array_garbage_collection_guard("log"):
        assert "reference cycle" in collected()
    assert not collected()
    xf.config.update("array_garbage_collection_guard", "log")
    try:
        assert "test_guards.py" in collected()
        with xf.array_garbage_collection_guard("allow"):
            assert not collected()
    finally:
        xf.config.update("array_garbage_collection_guard", None)
    assert not collected()


@pytest.mark.parametrize("make", [lambda x: xnp.array([1.0, 2.0, 3.0]), lambda x: xnp.asarray(HOST), lambda x: HOST,
                                  lambda x: xnp.float32(2), lambda x: xnp.array([x[0], 2, 3])])
def test_constants_are_not_guarded(make):
    f = xf.jit(lambda x: x * make(x))
    with xf.transfer_guard("disallow_explicit"):
        result = f(HERE)
    assert np.array_equal(result, np.asarray(HERE) * np.asarray(make(np.asarray(HERE))))


def test_callback_arguments_are_explicit_transfers():
    def twice(x):
        return 2 * np.asarray(x)

    called = xf.jit(lambda x: xf.pure_callback(twice, x, x))
    with xf.transfer_guard_host_to_device("disallow"):
        assert called(HERE).tolist() == xf.pure_callback(twice, HERE, HERE).tolist() == [0, 2, 4]
        with pytest.raises(JaxRuntimeError, match="host-to-device"):
            xf.pure_callback(twice, HERE, HOST)
