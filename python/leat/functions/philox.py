"""Philox4x32-10 and its results, in operations of torch: for devices that the library does not reach.

The same bits as `src/kernels/row_random.c`, whose constants and order of operations these are. Words of 32 bits lie in
int64, whose products wrap as those of uint64 do. Numbers are made by single additions, multiplications and divisions of
float64, each rounded by itself. A compiler that joins them (``torch.compile``) may change last bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LOW = 0xFFFFFFFF
M0, M1 = 0xD2511F53, 0xCD9E8D57
W0, W1 = 0x9E3779B9, 0xBB67AE85
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")

# Wichura: "The percentage points of the normal distribution", AS 241, 1988.
CENTRE = 0.425
A = (
    3.3871328727963666080e0,
    1.3314166789178437745e2,
    1.9715909503065514427e3,
    1.3731693765509461125e4,
    4.5921953931549871457e4,
    6.7265770927008700853e4,
    3.3430575583588128105e4,
    2.5090809287301226727e3,
)
B = (
    4.2313330701600911252e1,
    6.8718700749205790830e2,
    5.3941960214247511077e3,
    2.1213794301586595867e4,
    3.9307895800092710610e4,
    2.8729085735721942674e4,
    5.2264952788528545610e3,
)
C = (
    1.42343711074968357734e0,
    4.63033784615654529590e0,
    5.76949722146069140550e0,
    3.64784832476320460504e0,
    1.27045825245236838258e0,
    2.41780725177450611770e-1,
    2.27238449892691845833e-2,
    7.74545014278341407640e-4,
)
D = (
    2.05319162663775882187e0,
    1.67638483018380384940e0,
    6.89767334985100004550e-1,
    1.48103976427480074590e-1,
    1.51986665636164571966e-2,
    5.47593808499534494600e-4,
    1.05075007164441684324e-9,
)
E = (
    6.65790464350110377720e0,
    5.46378491116411436990e0,
    1.78482653991729133580e0,
    2.96560571828504891230e-1,
    2.65321895265761230930e-2,
    1.24266094738807843860e-3,
    2.71155556874348757815e-5,
    2.01033439929228813265e-7,
)
F = (
    5.99832206555887937690e-1,
    1.36929880922735805310e-1,
    1.48753612908506148525e-2,
    7.86869131145613259100e-4,
    1.84631831751005468180e-5,
    1.42151175831644588870e-7,
    2.04426310338993978564e-15,
)


def _product(a: Tensor, b: int) -> tuple[Tensor, Tensor]:
    """High and low word of the product of two words."""
    whole = a * b
    return (whole >> 32) & LOW, whole & LOW


def words(keys: Tensor, call: int, n: int) -> Tensor:
    """The first n words of each row: int64 of (rows, n), each below 2^32. `keys` are int64 with the bits of uint64."""
    import torch

    blocks = torch.arange((n + 3) // 4, dtype=torch.int64, device=keys.device)[None]
    shape = (len(keys), blocks.shape[1])
    k0, k1 = keys[:, None] & LOW, (keys[:, None] >> 32) & LOW
    c0, c1 = (blocks & LOW).expand(shape), ((blocks >> 32) & LOW).expand(shape)
    c2, c3 = torch.full_like(c0, call), torch.zeros_like(c0)
    for _ in range(10):
        (high0, low0), (high1, low1) = _product(c0, M0), _product(c2, M1)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    return torch.stack((c0, c1, c2, c3), 2).reshape(len(keys), 4 * blocks.shape[1])[:, :n]


def _pairs(keys: Tensor, call: int, n: int) -> tuple[Tensor, Tensor]:
    """Low and high words of the first n numbers of 64 bits."""
    drawn = words(keys, call, 2 * n)
    return drawn[:, ::2], drawn[:, 1::2]


def uniform(keys: Tensor, call: int, n: int, wide: bool) -> Tensor:
    import torch

    if not wide:
        return (words(keys, call, n) >> 8).to(torch.float32) * 2.0**-24
    low, high = _pairs(keys, call, n)
    return ((high << 21) | (low >> 11)).to(torch.float64) * 2.0**-53


def integers(keys: Tensor, call: int, n: int, low: int, high: int) -> Tensor:
    x0, x1 = _pairs(keys, call, n)
    n0, n1 = (high - low) & LOW, (high - low) >> 32
    # The words of x (high - low), the two highest: of x1 n1, with what the lower products carry.
    carry = _product(x0, n0)[0]
    above, below = _product(x1, n0)
    middle = carry + below
    other, last = _product(x0, n1)
    top = ((middle + last) >> 32) + above + other
    return x1 * n1 + top + low


def permutation(keys: Tensor, call: int, n: int) -> Tensor:
    low, high = _pairs(keys, call, n)
    return ((high << 31) | (low >> 1)).argsort(stable=True, dim=1)


def normal(keys: Tensor, call: int, n: int, wide: bool) -> Tensor:
    import torch

    if wide:
        low, high = _pairs(keys, call, n)
        q = (((high << 20) | (low >> 12)) - (1 << 51)).to(torch.float64)
        q = (q + 0.5) * 2.0**-52
    else:
        q = (words(keys, call, n) - (1 << 31)).to(torch.float64)
        q = (q + 0.5) * 2.0**-32
    tail = q.abs()
    r = _root(-_log(0.5 - tail.clamp(min=CENTRE)))
    x = torch.where(r <= 5.0, _ratio(C, D, r - 1.6), _ratio(E, F, r - 5.0))
    x = torch.where(tail <= CENTRE, q * _ratio(A, B, 0.180625 - q * q), torch.where(q < 0, -x, x))
    return x if wide else x.to(torch.float32)


def _ratio(p: tuple[float, ...], q: tuple[float, ...], x: Any) -> Any:
    import torch

    above, below = torch.full_like(x, p[7]), torch.full_like(x, q[6])
    for a in reversed(p[:7]):
        above = above * x
        above = above + a
    for b in reversed(q[:6]):
        below = below * x
        below = below + b
    below = below * x
    return above / (below + 1.0)


def _root(x: Tensor) -> Tensor:
    """The square root of numbers from 2 to 40. That of torch may be off by the last bit."""
    import torch

    y = ((x.view(torch.int64) >> 1) + 0x1FF7A3BE00000000).view(torch.float64)
    for _ in range(4):
        y = 0.5 * (y + x / y)
    return y


def _log(x: Tensor) -> Tensor:
    """The natural logarithm of normal positive numbers, as `leat_math_log` has it."""
    import torch

    bits = x.view(torch.int64)
    k = (bits >> 52) - 1023
    m = ((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(torch.float64)
    large = m >= math.sqrt(2.0)
    m, k = torch.where(large, m * 0.5, m), torch.where(large, k + 1, k)
    s = (m - 1.0) / (m + 1.0)
    t, total, e = s * s, torch.zeros_like(s), k.to(torch.float64)
    for i in range(21, 0, -2):
        total = total * t
        total = total + 1.0 / i
    low = e * LN2_LOW
    return e * LN2_HIGH + (2.0 * s * total + low)
