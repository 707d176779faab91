/* Chains over tuples, below any loader: the distribution of shares, what a row says of itself, and memory that runs
 * out. */
#include "../allocations.h"
#include "program_helpers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "op/joint.h"
#include "op/mix.h"

/* ---- Beta ---- */

/* The regularised incomplete beta function, by its continued fraction (Lentz). */
static double beta_cdf(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x > 0;
    if (x > (a + 1) / (a + b + 2))
        return 1 - beta_cdf(b, a, 1 - x);
    double front = exp(a * log(x) + b * log(1 - x) - (lgamma(a) + lgamma(b) - lgamma(a + b))) / a;
    double f = 1, c = 1, d = 0;
    for (int i = 0; i <= 300; i++) {
        int m = i / 2;
        double numerator = !i      ? 1
                           : i % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                                   : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 + numerator * d;
        d = 1 / (fabs(d) < 1e-300 ? 1e-300 : d);
        c = 1 + numerator / (fabs(c) < 1e-300 ? 1e-300 : c);
        f *= c * d;
        if (fabs(1 - c * d) < 1e-14)
            break;
    }
    return front * (f - 1);
}

enum { DRAWS = 40000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* sqrt(n) times the largest distance between the distribution of draws for `alpha` and that of Beta(other, other):
 * above 1.95 with a probability of 0.1 % if they are one (Kolmogorov). */
static double distance(double alpha, double other)
{
    static double drawn[DRAWS];
    double worst = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t counter = 0;
        drawn[i] = leat_draw_beta(leat_key_mix(17, i), alpha, &counter);
        assert_true(drawn[i] >= 0 && drawn[i] <= 1 && counter >= 2);
    }
    qsort(drawn, DRAWS, sizeof *drawn, by_value);
    for (int i = 0; i < DRAWS && drawn[i] < 1 - 1e-9; i++) { /* nearer to 1 a double holds too little of it */
        double p = beta_cdf(other, other, drawn[i]);
        worst = fmax(worst, fmax(fabs(p - (double)i / DRAWS), fabs(p - (double)(i + 1) / DRAWS)));
    }
    return worst * sqrt(DRAWS);
}

TEST(shares_are_drawn_from_the_beta_distribution)
{
    const double alphas[] = {0.05, 0.2, 0.4, 1, 1.5, 4, 32};
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        double d = distance(alphas[i], alphas[i]);
        if (d > 1.95)
            fail_msg("alpha %g: %g", alphas[i], d);
        assert_true(distance(alphas[i], alphas[i] * 1.2) > 1.95); /* another one is told from it */
    }
}

TEST(extreme_shapes_give_shares_too)
{
    const double alphas[] = {1e-3, 1e6};
    for (size_t k = 0; k < 2; k++)
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t counter = 0;
            double share = leat_draw_beta(i, alphas[k], &counter);
            assert_true(share >= 0 && share <= 1 && counter < 4000);
            assert_true(k == 0 || fabs(share - 0.5) < 0.01);
        }
}

/* ---- formats ---- */

TEST(formats_go_back_and_forth)
{
    const float corners[] = {1.5f, 2, 5.5f, 12, 0, 0, 0, 0};
    for (int from = LEAT_ROLE_BOXES_XYXY; from <= LEAT_ROLE_BOXES_CXCYWH; from++)
        for (int to = LEAT_ROLE_BOXES_XYXY; to <= LEAT_ROLE_BOXES_CXCYWH; to++) {
            float b[8];
            memcpy(b, corners, sizeof b);
            leat_boxes_convert(b, 2, LEAT_ROLE_BOXES_XYXY, (enum leat_role)from);
            leat_boxes_convert(b, 2, (enum leat_role)from, (enum leat_role)to);
            leat_boxes_convert(b, 2, (enum leat_role)to, LEAT_ROLE_BOXES_XYXY);
            assert_memory_equal(b, corners, sizeof b);
        }
}

/* ---- rows ---- */

static struct leat_field fields[3];

static void make_fields(void)
{
    fields[0] = field_of("image", LEAT_KIND_ARRAY, LEAT_U8, LEAT_LAYOUT_HWC, 3, (const int64_t[]){4, 6, 1});
    fields[1] = field_of("boxes", LEAT_KIND_ARRAY, LEAT_F32, LEAT_LAYOUT_NONE, 2, (const int64_t[]){-1, 4});
    fields[1].role = LEAT_ROLE_BOXES_XYXY;
    fields[2] = field_of("label", LEAT_KIND_ARRAY, LEAT_I64, LEAT_LAYOUT_NONE, 1, (const int64_t[]){-1});
}

static const char text[] = "{\"operators\": {\"c\": {\"type\": \"CenterCrop\", \"size\": [4, 4]}, \"s\": {\"type\": "
                           "\"SanitizeBoundingBoxes\", "
                           "\"labels_getter\": \"default\"}}, \"outputs\": {\"image\": {\"fields\": [\"image\", "
                           "\"boxes\", \"label\"], \"chain\": "
                           "[\"c\", \"s\"], \"geometry\": true}}}";

static struct leat_program *compile_tuple(const char *program)
{
    struct leat_error error = {0};
    struct leat_program *out;
    make_fields();
    if (leat_program_compile(fields, 3, program, NULL, 0, false, &out, &error))
        fail_msg("%s", error.message);
    return out;
}

TEST(a_tuple_describes_its_chain_and_its_outputs)
{
    struct leat_program *p = compile_tuple(text);
    assert_int_equal(leat_program_chains(p), 1);
    const struct leat_program_chain *chain = leat_program_chain(p, 0);
    assert_true(chain->tuple && !chain->keyed && !chain->decodes[0]);
    assert_int_equal(chain->n_fields, 3);
    assert_int_equal(chain->n_outputs, 4);
    assert_true(leat_program_output(p, 1)->ragged && leat_program_output(p, 1)->bounded);
    assert_true(leat_program_output(p, 2)->bounded && !leat_program_output(p, 0)->ragged);
    assert_string_equal(leat_program_output(p, 3)->name, "image.geometry");
    assert_int_equal(leat_program_output(p, 3)->row_bytes, LEAT_GEOMETRY_COLUMNS * sizeof(float));
    assert_int_equal(leat_program_ragged_bytes(p, 1, 48), 48);
    assert_false(leat_program_has_batch_stage(p));
    leat_program_free(p);
}

TEST(a_row_says_how_many_steps_are_left_and_whose_fault_it_is)
{
    struct leat_program *p = compile_tuple(text);
    struct leat_scratch *scratch = leat_scratch_new(p);
    uint8_t image[24], made[16];
    float boxes[12] = {0, 0, 3, 4, /* left of the crop: 1 pixel is seen of it */ 0, 0, 1, 4, /* gone */ 2, 1, 6, 3};
    int64_t label[3] = {7, 8, 9}, labels[3];
    float moved[12], geometry[LEAT_GEOMETRY_COLUMNS];
    for (int i = 0; i < 24; i++)
        image[i] = (uint8_t)i;
    struct leat_row values[] = {{.data = image, .length = sizeof image},
                                {.data = boxes, .length = sizeof boxes},
                                {.data = label, .length = sizeof label}};
    void *dst[] = {made, moved, labels, geometry};
    uint64_t steps[4];
    size_t failed;
    struct leat_error error = {0};
    assert_ok(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error));
    assert_true(steps[0] == 1 && steps[1] == 2 && steps[2] == 2 && steps[3] == 1);
    assert_memory_equal(moved, ((float[]){0, 0, 2, 4, 1, 1, 4, 3}), 8 * sizeof(float));
    assert_true(labels[0] == 7 && labels[1] == 9);
    assert_memory_equal(geometry, ((float[]){1, 0, 4, 4, 0, 4, 6}), sizeof geometry);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 4; x++)
            assert_int_equal(made[4 * y + x], 6 * y + x + 1);
    boxes[1] = NAN;
    assert_int_equal(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error), LEAT_E_DECODE);
    assert_int_equal(failed, 1);
    boxes[1] = 0;
    values[2].length = 8;
    assert_int_equal(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error), LEAT_E_DECODE);
    assert_int_equal(failed, 2);
    values[1].length = 20; /* no whole number of boxes */
    assert_int_equal(leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, &error), LEAT_E_DECODE);
    assert_int_equal(failed, 1);
    leat_scratch_free(scratch);
    leat_program_free(p);
}

/* Compiles the tuple's program and makes three rows of it. */
static int life_of_a_tuple(const char *program, struct leat_error *error)
{
    static uint8_t image[24];
    static float boxes[12] = {0, 0, 3, 4, 0, 0, 1, 4, 2, 1, 6, 3};
    static int64_t label[3] = {7, 8, 9};
    uint8_t made[16], moved[64], labels[64], geometry[64];
    void *dst[] = {made, moved, labels, geometry};
    struct leat_program *p;
    uint64_t steps[4];
    size_t failed;
    int rc = leat_program_compile(fields, 3, program, NULL, 0, false, &p, error);
    struct leat_scratch *scratch = rc ? NULL : leat_scratch_new(p);
    rc = rc || scratch ? rc : leat_fail(error, LEAT_E_NOMEM, "no memory");
    for (uint64_t i = 0; i < 3 && !rc; i++) {
        struct leat_row values[] = {{.data = image, .length = sizeof image, .key = i},
                                    {.data = boxes, .length = sizeof boxes, .key = i},
                                    {.data = label, .length = sizeof label, .key = i}};
        rc = leat_program_apply_tuple(p, 0, scratch, values, dst, steps, &failed, error);
    }
    leat_scratch_free(scratch);
    leat_program_free(p);
    return rc;
}

TEST(every_failing_allocation_of_a_tuple_is_an_error_and_leaks_nothing)
{
    static const char drawn[] =
        "{\"operators\": {\"r\": {\"type\": \"RandomRotation\", \"degrees\": [-20, 20]}, \"c\": {\"type\": "
        "\"RandomResizedCrop\", \"size\": [4, 4]}, \"f\": {\"type\": \"RandomHorizontalFlip\"}, \"s\": {\"type\": "
        "\"SanitizeBoundingBoxes\", \"labels_getter\": \"default\", \"min_visibility\": 0.2}}, \"outputs\": "
        "{\"image\": {\"fields\": "
        "[\"image\", "
        "\"boxes\", \"label\"], \"chain\": [\"r\", \"c\", \"f\", \"s\"]}}}";
    const char *const programs[] = {text, drawn};
    make_fields();
    for (size_t i = 0; i < 2; i++) {
        struct leat_error error = {0};
        unsigned failures = 0;
        bool reached = true;
        for (int64_t n = 0; reached; n++) {
            fail_allocation(n);
            const int rc = life_of_a_tuple(programs[i], &error);
            reached = allocation_failed();
            if (rc && rc != LEAT_E_NOMEM)
                fail_msg("allocation %lld: %s: %s", (long long)n, leat_status_name(rc), error.message);
            failures += rc == LEAT_E_NOMEM;
        }
        assert_true(failures > 10);
        assert_ok(life_of_a_tuple(programs[i], &error));
    }
}

/* Programs that are none: each is refused with words, and leaves nothing behind. */
/* A tuple whose image goes through a function. */
#define CUT(other, cut, more)                                                                                          \
    "{\"operators\": {\"f\": {\"type\": \"RandomHorizontalFlip\"}}, \"outputs\": {\"image\": {\"fields\": "            \
    "[\"image\", " other "], \"chain\": [\"f\"], \"cut\": {" cut                                                       \
    "}, \"calls\": [{\"segment\": 1, \"kind\": 1, \"dtype\": \"uint8\", \"shape\": "                                   \
    "[null]" more "}]}}}"

TEST(tuples_that_make_no_sense_are_refused)
{
    static const char *const wrong[] = {
        "{\"outputs\": {\"image\": {\"fields\": [], \"chain\": []}}}",
        "{\"outputs\": {\"image\": {\"fields\": \"image\", \"chain\": []}}}",
        "{\"outputs\": {\"image\": {\"fields\": [\"image\", 3], \"chain\": []}}}",
        "{\"outputs\": {\"image\": {\"fields\": [\"image\", \"image\"], \"outputs\": [\"image\", \"b\"], \"chain\": "
        "[]}}}",
        "{\"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\"], \"outputs\": [\"image\"], \"chain\": []}}}",
        "{\"outputs\": {\"x\": {\"fields\": [\"image\", \"boxes\"], \"chain\": []}}}",
        "{\"outputs\": {\"image\": {\"fields\": [\"image\", \"nothing\"], \"chain\": []}}}",
        "{\"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\"], \"chain\": []}, \"boxes\": {\"field\": "
        "\"boxes\", "
        "\"chain\": []}}}",
        "{\"outputs\": {\"boxes\": {\"field\": \"boxes\", \"chain\": [], \"geometry\": true}}}",
        "{\"operators\": {\"s\": {\"type\": \"SanitizeBoundingBoxes\"}}, \"outputs\": {\"image\": {\"fields\": "
        "[\"image\", "
        "\"boxes\"], \"chain\": [\"s\"]}}}",
        "{\"operators\": {\"s\": {\"type\": \"PadTo\", \"n\": 4, \"fill\": {\"a\": \"b\"}}}, \"outputs\": {\"label\": "
        "{\"field\": "
        "\"label\", \"chain\": [\"s\"]}}}",
        CUT("\"boxes\"", "\"image\": 1, \"after\": 0", ""),
        CUT("\"boxes\"", "\"image\": 2, \"after\": 0", ""),
        CUT("\"boxes\"", "\"image\": 0, \"after\": 2", ""),
        CUT("\"boxes\"", "\"image\": 0, \"after\": -1", ""),
        CUT("\"boxes\"", "\"image\": 0, \"after\": 0, \"draws\": 1", ""),
        CUT("\"boxes\"", "\"image\": 0, \"after\": 0, \"open\": true", ""),
        CUT("\"boxes\"", "\"after\": 0", ""),
        CUT("\"boxes\"", "\"image\": 0, \"after\": 0", ", \"channels\": 3"),
        "{\"operators\": {}, \"outputs\": {\"image\": {\"fields\": [\"image\", \"boxes\"], \"chain\": [], \"calls\": "
        "[{\"segment\": 1, \"kind\": 1, \"dtype\": \"uint8\", \"shape\": [null]}]}}}"};
    make_fields();
    const char *good = CUT("\"boxes\"", "\"image\": 0, \"after\": 1", "");
    struct leat_program *program = compile_tuple(good);
    assert_int_equal(leat_program_outputs(program), 3);
    assert_true(leat_program_output(program, 0)->hidden && !leat_program_output(program, 1)->hidden);
    assert_true(leat_program_output(program, 2)->called && leat_program_output(program, 2)->input == 0);
    leat_program_free(program);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct leat_error error = {0};
        struct leat_program *out;
        if (!leat_program_compile(fields, 3, wrong[i], NULL, 0, false, &out, &error))
            fail_msg("%s", wrong[i]);
        assert_true(*error.message && !out);
    }
}

TEST_MAIN()
