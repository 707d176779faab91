"""Faults of src/kernels: resizing, sampling, conversions, random numbers of rows, text."""

from mutations import Mutation

MUTATIONS = [
    Mutation(
        "parts of a row that lie over each other pass for ones in order",
        "src/kernels/sparse.c",
        "if (columns[end - 1] <= above)",
        "if (columns[begin] <= above)",
        ("c:op/kernels",),
    ),
    Mutation(
        "memory of columns is left as the row before used it",
        "src/kernels/sparse.c",
        "    _mm256_storeu_si256(at, _mm256_setzero_si256());\n",
        "",
        ("c:op/kernels",),
    ),
    Mutation(
        "a column of 64 bits is looked at as one of 32",
        "src/kernels/sparse.c",
        "if (!(high >> 31) && largest < most)",
        "if (largest < most)",
        ("c:op/kernels",),
    ),
    Mutation(
        "a value of a sparse row that is put in order stays where it was",
        "src/kernels/sparse.c",
        "memcpy(to + rank * item, values + (placed ? places[k] : k) * item, item);",
        "memcpy(to + k * item, values + (placed ? places[k] : k) * item, item);",
        ("c:op/kernels", "c:data/stored"),
    ),
    Mutation(
        "a bright edge that a filter overshoots wraps to black",
        "src/kernels/kernels_portable.c",
        "return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);",
        "return (uint8_t)(v < 0 ? 0 : v);",
        ("c:op/kernels",),
    ),
    Mutation(
        "weights below 0 are rounded towards 0",
        "src/kernels/weights.h",
        "return (int)(v < 0 ? v - 0.5 : v + 0.5);",
        "return (int)(v + 0.5);",
        (
            "py:test_geometry.py::test_resizing_is_that_of_pillow_across_then_down",
            "py:test_golden_draws.py::test_an_operator_draws_what_it_always_drew",
        ),
    ),
    Mutation(
        "the runs of a mirrored axis begin one pixel early",
        "src/kernels/resample.c",
        "    axis->first[i] = axis->in - end;\n    axis->end[i] = axis->in - first;",
        "    axis->first[i] = axis->in - end - (end < axis->in);\n"
        "    axis->end[i] = axis->in - first - (end < axis->in);",
        ("c:op/program", "py:test_geometry.py::test_a_photo_is_mirrored_after_its_crop_is_resized"),
    ),
    Mutation(
        "a surrogate passes as UTF-8",
        "src/kernels/utf8.c",
        "(c == 0xed && p[1] >= 0xa0)",
        "(c == 0xed && p[1] > 0xa0)",
        ("c:format/utf8",),
    ),
    Mutation(
        "numbers above 32767 of 16 bits without a sign become negative in AVX2 and AVX-512",
        "src/kernels/widen_kernels.h",
        "WIDEN(u16_i64, uint16_t, int64_t, QUARTER, V(cvtepu16_epi64))",
        "WIDEN(u16_i64, uint16_t, int64_t, QUARTER, V(cvtepi16_epi64))",
        ("c:op/kernels",),
    ),
    Mutation(
        "the last random numbers of a row are not drawn unless they fill a block",
        "src/kernels/row_random.c",
        "philox(keys[r], call, i * words / 4, (m * words + 3) / 4, chunk);",
        "philox(keys[r], call, i * words / 4, m * words / 4, chunk);",
        ("c:op/row_random",),
    ),
    Mutation(
        "blocks of random numbers repeat after 2^32 of them",
        "src/kernels/philox_kernels.h",
        "vec c0 = block, c1 = V(srli_epi64)(block, 32), c2",
        "vec c0 = block, c1 = EACH(0), c2",
        ("c:op/row_random",),
    ),
    Mutation(
        "what lies outside of a turned mask is filled as if all of it were",
        "src/kernels/sample_portable.c",
        "        mask += w[k];\n",
        "        mask += w[k] / 2;\n",
        ("py:test_golden_draws.py::test_an_operator_draws_what_it_always_drew", "c:op/warps"),
    ),
    Mutation(
        "numbers of 2^63 and above become the least integer",
        "src/kernels/values.c",
        "return v >= 0x1p63 && v < 0x1p64 ? (uint64_t)v : (uint64_t)cut(v);",
        "return (uint64_t)cut(v);",
        ("c:op/kernels",),
    ),
    Mutation(
        "the columns of a part that is turned lie one behind their values",
        "src/kernels/sparse.c",
        "            memcpy(to_columns + at * 4, columns + k * 4, 4);\n",
        "            memcpy(to_columns + at * 4, columns + (k ? k - 1 : 0) * 4, 4);\n",
        ("c:data/stored",),
    ),
]
