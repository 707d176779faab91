/*
 * Branches and policies: which operators a key runs, that targets and pixels go through the same ones, failing
 * allocations, bad text, and that all instruction sets make the same bytes. Pixels and distributions are compared with
 * Pillow's in tests/python/test_branches.py and test_policies.py.
 */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "op/branch.h"
#include "op/program_internal.h"

#define CROP(SIZE) "{\"type\": \"RandomCrop\", \"size\": " SIZE "}"
#define FLIP "{\"type\": \"RandomHorizontalFlip\", \"p\": 1.0}"
#define BLUR "{\"type\": \"GaussianBlur\", \"kernel_size\": 3}"
#define APPLY(LIST) "{\"type\": \"RandomApply\", \"transforms\": [" LIST "], \"p\": 0.5}"
#define CHOICE(LIST) "{\"type\": \"RandomChoice\", \"transforms\": [" LIST "]}"
#define ORDER(LIST) "{\"type\": \"RandomOrder\", \"transforms\": [" LIST "]}"
#define RESIZE(SIZE) "{\"type\": \"Resize\", \"size\": " SIZE "}"
#define CENTER(SIZE) "{\"type\": \"CenterCrop\", \"size\": " SIZE "}"

enum { W = 40, H = 32, C = 3 };

static struct leat_field image_field(void)
{
    return field_of("x", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){H, W, C});
}

struct ran {
    char types[16][32];
    unsigned n;
};

static int note(void *context, const struct leat_op *op, uint64_t key)
{
    struct ran *ran = context;
    snprintf(ran->types[ran->n++], sizeof *ran->types, "%s", op->class->type);
    return ran->n == 16;
}

TEST(a_walk_gives_the_operators_that_the_pixels_go_through)
{
    struct leat_field field = image_field();
    struct leat_program *program =
        must_compile(&field, APPLY(CHOICE(FLIP ", [" BLUR ", " FLIP "]") ", " ORDER(BLUR ", " FLIP)));
    const struct leat_op *op = program->outputs[0].uses[0].op;
    unsigned none = 0, flip_first = 0;
    for (uint64_t key = 0; key < 2000; key++) {
        struct ran ran = {.n = 0};
        assert_int_equal(leat_op_act(op, key, note, &ran), 0);
        none += !ran.n;
        if (!ran.n)
            continue;
        bool both = ran.n == 4;
        assert_true(ran.n == 3 || both);
        assert_string_equal(ran.types[0], both ? "GaussianBlur" : "RandomHorizontalFlip");
        assert_string_equal(ran.types[both], "RandomHorizontalFlip");
        flip_first += !strcmp(ran.types[1 + both], "RandomHorizontalFlip");
        assert_true(strcmp(ran.types[1 + both], ran.types[2 + both]) != 0);
    }
    assert_true(none > 900 && none < 1100 && flip_first > 400 && flip_first < 600);
    struct ran full = {.n = 15};
    uint64_t key = 0;
    for (; full.n == 15; key++)
        if (leat_op_act(op, key, note, &full))
            break; /* the first value that is not 0 ends it */
    assert_int_equal(full.n, 16);
    leat_program_free(program);
}

static const char every[] = APPLY(CHOICE(RESIZE("[20, 24]") ", [" BLUR ", " CROP("[20, 24]") "]") ", " ORDER(
    "{\"type\": \"RandAugment\"}, {\"type\": \"AugMix\"}")) ", " CENTER("[20, 24]");

static int life(const char *chain, uint64_t *while_rows, struct leat_error *error)
{
    static uint8_t pixels[W * H * C], out[W * H * C];
    struct leat_field field = image_field();
    struct leat_program *program;
    int rc = compile_chain(&field, chain, &program, error);
    struct leat_scratch *scratch = rc ? NULL : leat_scratch_new(program);
    rc = rc || scratch ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory");
    const int64_t before = allocations_left;
    for (uint64_t key = 0; key < 20 && !rc; key++) {
        struct leat_row row = {.data = pixels, .length = sizeof pixels, .key = key};
        if (leat_program_apply(program, 0, scratch, &row, 1, out, error) != 1)
            rc = error->code;
    }
    *while_rows = (uint64_t)(before - allocations_left);
    leat_scratch_free(scratch);
    leat_program_free(program);
    return rc;
}

TEST(every_failing_allocation_is_an_error_and_leaks_nothing)
{
    struct leat_error error = {0};
    unsigned failures = 0;
    uint64_t rows;
    bool reached = true;
    for (int64_t n = 0; reached; n++) {
        fail_allocation(n);
        const int rc = life(every, &rows, &error);
        reached = allocation_failed();
        if (rc && rc != LEAT_E_NOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, leat_status_name(rc), error.message);
        failures += rc == LEAT_E_NOMEM;
    }
    assert_true(failures > 20);
    assert_ok(life(every, &rows, &error));
}

TEST(rows_of_known_size_allocate_nothing_and_odd_ones_know_their_bytes)
{
    struct leat_error error = {0};
    uint64_t rows;
    fail_allocation(INT64_MAX); /* they are only counted */
    int rc = life(APPLY(BLUR ", " FLIP) ", " CHOICE("{\"type\": \"AugMix\"}, " RESIZE("[32, 40]")), &rows, &error);
    allocation_failed();
    assert_ok(rc);
    assert_int_equal(rows, 0);

    struct leat_field photo = field_of("x", LEAT_KIND_IMAGE, LEAT_U8, LEAT_LAYOUT_NONE, 0, NULL);
    struct leat_program *program =
        must_compile(&photo, "{\"type\": \"Decode\"}, " APPLY(RESIZE("[4000, 4000]")) ", " CENTER("8"));
    uint8_t *pixels = malloc((size_t)W * H * C);
    unsigned char *jpeg;
    unsigned long length;
    paint(pixels, W, H, C, 1);
    encode_jpeg(pixels, W, H, C, &jpeg, &length);
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t key = 0; key < 40; key++) {
        struct leat_row row = {.data = jpeg, .length = length, .key = key};
        uint64_t bytes = leat_program_decode_bytes(program, 0, &row, 0);
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(most - least, 4000 * 4000 * 3); /* where the branch runs, what it makes */
    free(jpeg);
    free(pixels);
    leat_program_free(program);
}

TEST(text_that_makes_no_sense_is_refused)
{
    char deep[2000] = FLIP;
    for (int i = 0; i < 17; i++) {
        char inner[2000];
        snprintf(inner, sizeof inner, "%s", deep);
        snprintf(deep, sizeof deep, "{\"type\": \"RandomApply\", \"transforms\": [%.1800s]}", inner);
    }
    const struct {
        const char *chain, *message;
    } cases[] = {
        {"{\"type\": \"RandomApply\"}", "RandomApply: transforms must be a list of operators"},
        {"{\"type\": \"RandomChoice\", \"transforms\": []}", "RandomChoice: transforms must be a list of 1 to 256"},
        {"{\"type\": \"RandomOrder\", \"transforms\": " FLIP "}", "RandomOrder: transforms must be a list"},
        {"{\"type\": \"RandomOrder\", \"transforms\": [3]}", "needs a \"type\""},
        {CHOICE("[" FLIP ", [" FLIP "]]"), "needs a \"type\""},
        {APPLY("{\"type\": \"RandomFlop\"}"), "unknown type, \"RandomFlop\""},
        {"{\"type\": \"RandomChoice\", \"transforms\": [" FLIP "], \"p\": [1, 2]}", "RandomChoice: p must be"},
        {"{\"type\": \"RandomChoice\", \"transforms\": [" FLIP "], \"p\": [0]}", "RandomChoice: p must be"},
        {"{\"type\": \"RandomApply\", \"transforms\": [], \"p\": 2}", "RandomApply: p must lie between 0 and 1"},
        {APPLY("{\"type\": \"ToLayout\", \"layout\": \"NHWC\"}"), "and ToLayout is none"},
        {"{\"type\": \"RandomHorizontalFlip\", \"transforms\": []}", "RandomHorizontalFlip"},
        {APPLY(RESIZE("[9, 9]")), "ends in images of open size"},
        {CHOICE("{\"type\": \"ToDtype\", \"dtype\": \"float32\"}, " FLIP), "make values of two types"},
        {"{\"type\": \"RandAugment\", \"magnitude\": 31}", "RandAugment: magnitude"},
        {"{\"type\": \"AutoAugment\", \"policy\": \"mnist\"}", "AutoAugment: policy"},
        {"{\"type\": \"AugMix\", \"alpha\": 0}", "AugMix: alpha"},
        {deep, "16 deep"},
    };
    struct leat_field field = image_field();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leat_program *program;
        struct leat_error error = {0};
        assert_true(compile_chain(&field, cases[i].chain, &program, &error) != 0);
        if (!strstr(error.message, cases[i].message))
            fail_msg("%s\nand not: %s", error.message, cases[i].message);
    }
}

TEST(instruction_sets_make_the_same_bytes)
{
    static const struct leat_op_class *const classes[] = {&leat_op_rand_augment, &leat_op_trivial_augment_wide,
                                                          &leat_op_auto_augment, &leat_op_aug_mix};
    for (uint64_t key = 0; key < 600; key++) {
        const struct leat_op_class *class = classes[key % 4];
        uint32_t w = 1 + (uint32_t)leat_draw_below(key, 0, 70), h = 1 + (uint32_t)leat_draw_below(key, 1, 40);
        uint32_t channels = key % 3 ? 3 : 1;
        bool planes = key % 5 == 0;
        size_t bytes = (size_t)w * h * channels;
        json_t *json = json_pack("{s:s}", "interpolation", key % 7 ? "nearest" : "bicubic");
        struct leat_error error = {0};
        struct leat_args args = {.object = json, .operator_type = class->type, .error = &error};
        void *own = calloc(1, class->args_bytes);
        class->parse(own, &args);
        assert_int_equal(args.status, LEAT_OK);
        struct leat_type type = {.dtype = LEAT_U8, .layout = LEAT_LAYOUT_HWC, .ndim = 3, .shape = {h, w, channels}};
        struct leat_image in, out;
        struct leat_filter_plan plan = {.w = w, .h = h};
        uint8_t *source = malloc(bytes), *made[2] = {malloc(bytes), malloc(bytes)};
        paint(source, w, h, channels, key);
        leat_image_packed(&in, &type, planes, w, h, source);
        leat_image_packed(&out, &type, planes, w, h, made[0]);
        class->plan(own, key, &in, &plan);
        void *scratch = aligned_alloc(64, leat_align64(plan.scratch));
        for (int isa = LEAT_ISA_PORTABLE; isa <= (int)leat_cpu_isa(); isa++) {
            out.base = made[isa != LEAT_ISA_PORTABLE];
            memset(out.base, isa ? 0xa5 : 0x5a, bytes);
            class->filter((enum leat_isa)isa, own, key, &in, &out, scratch);
            assert_true(isa == LEAT_ISA_PORTABLE || !memcmp(made[0], made[1], bytes));
        }
        if (class->skips && class->skips(own, key))
            assert_memory_equal(made[0], source, bytes);
        free(scratch);
        free(made[0]);
        free(made[1]);
        free(source);
        free(own);
        json_decref(json);
    }
}

TEST_MAIN()
