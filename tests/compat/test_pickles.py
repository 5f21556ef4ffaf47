"""Pickles written by jax 0.10.2 can be loaded."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
# A dictionary, written by jax: base64.b85encode(zlib.compress(pickle.dumps(found, 2)))
FILE = (
    r"c-oCt340So7*5l24Oj8R8}HO32vodKTB%fs#5x6C4_r5!NoQfRn|F6s8gzjwNeL==Ux+u}DBkzg`oDB$Hf_?U;KM#ivorI4-@NmF$8=vhMk-^>Nu^R&5Li`o*gLG"
    r"ztQiJ&R!<N!V7BjtB8Y5ZCR0dfY%eNTs#(+a1C}jEu5f0f2|5!P@rq5uu3V~yIkq$_GCL&9Q!fN_jSfkmfO*DT`RiK3@m67e9SbPPI2LAd9l6dL7B#&UMYST078_"
    r"{^c6za-abO%vDY`ScPVHzNmgV#L&Hu_r|H-8U&L}kaTw_rxc@#=n<4i8MIg8?KfpcP<Yb=nHyO_1pRC{1~BNRA~;(Vj4Igbl?I>S4;KFEb!vb#vK>){ERQZFu6WG"
    r"<mtA<6LBG%nRNx-^NtK3t}@zntO<fh%KN#g`wD8(vM3G3F~lO0I8-Rcq1Hw&^u$(`%I^>0G*w>-b{3?3!AWkW5(+T(5X!DOOJLQ1D!zzzx$vOzc}f{lO~5WHrSaf"
    r"!-K5a((o*6gL^261tOBadRs(0?RA<<!mMJM#vD&59V04KMC+HJ!7~v#%)PTnNGRlV%@0?H_3H^+cUXz4R_3f2_7(33aYC|*Q_Q}12bf-NU;8N(G}N`nb>!l@MO^}"
    r"I3gtIKTV^O?-otRBe+xR+77}7t)CoWK;W)1Y}6@csv?QXtcbyeu~1DEtdJ$;g}d9Ly-7uTvyOHRxn`P0y|_n(cMC=S<Y{)V4)XkFwkrl0QUSh?f(i`B*qQ`*8^!%"
    r"m!I+nX*bE9Icz~-I8ZjQs@O4~<rmKdBW(gsYM8TWUc=&$+NdO)>HDZS5+fR*~mibYwsUmA~Q{b^NSbVU-+jT1_-Rz`Fy6PzMyb>g<vi^uYad7hJ<gq<_ClAjU<a+"
    r"0bi9<_PPV8^JfhpNa6e9vWhLgy)gJP$YZ9!8uU3_p)p60SPw#vdNOHsWTzSMMMSkQeg>5`}@J2K3z3L8+4hMUb3(jv&m2$Nb06#zn>r?ZYoPbK?4&Q~NkB@sc<@k"
    r"X#KuRDxcbX|<*Wm7S_<*;mdk>#4!s1qjLt(w;~<S<|*>~2JLJdrT7{m2s`o@|{cY4;%$ekCO4HqSxCHfR)Op=|#Iahv*kl=^#{S-X#SPbK4Y+Z|J?K1K1g!2TGuM"
    r"AbUQc$<?0%1NW?<Y3E5y6FhdC@0TSJST7{#^J=t^As=C@!}X>(%`@s@;323yxclVXglgG6}e!!Ss{ZJmi(YhXcJ5DN*j$=6^+*v4Os}U^A(E5vQ+yc+o$@$8;Z}H"
    r"6h{Q!ig7gI^ESmhHM~29_jF9k^1j3SEiSHn30=pQVIzZ<;4B!nEg@L2MPG~`<T`5jkm8t*u;q^Ufg^YsAI<b2zhuA{{Zs2h0h6I3_&B$;hEFIy)q95(X5%xv6nVD"
    r"reK#Z(D^L;;d~Ta&A#&s`?wKYTVNwSX5PYFCbBN%$?hvNwv0bK#FYEY<;zSK!Q+$)*C-`xF>yF~v{5Zag@qI?Kjl6&rBU|>kA7;2O1^#a4X?{O$$4@o<O!14}U<&"
    r"^$mkYnu@H@pHQC{HBLJ!4XNflHqo8j-)@zp;dWD6_%L3LQI5lpCjnWXq9%Kitv?+Cv")
READ = """
import base64, pickle, sys, zlib
import xlafront.as_jax
import jax, jax.numpy as jnp
found = pickle.loads(zlib.decompress(base64.b85decode(sys.argv[1])))
print(type(found["array"]) is type(jnp.ones(1)), found["array"].tolist(), found["array"].dtype, found["array"].weak_type)
print(found["weak"] + jnp.bfloat16(1), found["weak"].weak_type, (found["weak"] + jnp.bfloat16(1)).dtype)
print(found["bfloat16"].dtype, found["bfloat16"].tolist())
print(found["key"] == jax.random.key(3), found["key"].dtype == found["key_dtype"] == jax.random.key(3).dtype)
print((found["key_rbg"] == jax.random.split(jax.random.key(3, impl="rbg"))).tolist(), jax.random.key_impl(found["key_rbg"]))
print(jax.random.uniform(found["key"]) == jax.random.uniform(jax.random.key(3)))
print(found["struct"] == jax.ShapeDtypeStruct((2, 3), "float32", weak_type=True), found["struct"].sharding)
print(found["counts"].counts.tolist(), found["rotation"].as_matrix().tolist())
print(found["mode"] is jax.lax.GatherScatterMode.CLIP, found["algorithm"] is jax.lax.DotAlgorithmPreset.F32_F32_F32)
print(found["spec"] == jax.P("x", None), found["space"] is jax.memory.Space.Host)
print(pickle.loads(pickle.dumps(found["key"])) == found["key"], pickle.loads(pickle.dumps(found["key_dtype"])) == found["key_dtype"])
"""


def test_pickles_of_jax_can_be_loaded():
    done = subprocess.run([sys.executable, "-c", READ, FILE], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "XLAFRONT_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "True [0, 1, 2] int32 False",
        "4 True bfloat16",
        "bfloat16 [[1.0, 1.0], [1.0, 1.0]]",
        "True True",
        "[True, True] rbg",
        "True",
        "True None",
        "[2, 1] [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0]]",
        "True True",
        "True True",
        "True True",
    ]
