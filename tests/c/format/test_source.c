#include "../test.h"
#include "format/source.h"

static int rows_of_none(struct leat_source *source, size_t field, const uint64_t *samples, size_t n, void *cold,
                        const void **rows, size_t *failed, struct leat_error *error)
{
    return LEAT_OK;
}

TEST(what_a_format_leaves_out_is_said_when_it_is_opened)
{
    const struct leat_source_vtable v = {.name = "toy", .rows = rows_of_none};
    static const struct {
        struct leat_field field;
        uint8_t storage;
        const char *missing;
    } cases[] = {
        {{.name = "x", .kind = LEAT_KIND_ARRAY, .dtype = LEAT_I64}, LEAT_STORAGE_MAPPED, NULL},
        {{.name = "x", .kind = LEAT_KIND_ARRAY}, LEAT_STORAGE_MAPPED, "a dtype"},
        {{.name = "x", .kind = LEAT_KIND_STR}, LEAT_STORAGE_EXTENT, "LEAT_U8"},
        {{.name = "x", .kind = LEAT_KIND_STR, .dtype = LEAT_I8}, LEAT_STORAGE_EXTENT, "LEAT_U8"},
        {{.name = "x", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}, LEAT_STORAGE_EXTENT, "extents, file and mark"},
        {{.name = "x", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}, LEAT_STORAGE_COMPUTED, "compute"},
        {{.name = "x", .kind = LEAT_KIND_STR, .dtype = LEAT_U8}, 0, "a storage"},
        {{.name = "x", .dtype = LEAT_U8}, LEAT_STORAGE_MAPPED, "a kind"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct leat_source source = {
            .v = &v, .fields = &cases[i].field, .n_fields = 1, .storage = &cases[i].storage};
        struct leat_error error = {0};
        int rc = leat_source_check(&source, &error);
        assert_int_equal(rc, cases[i].missing ? LEAT_E_INVALID : LEAT_OK);
        if (cases[i].missing) {
            assert_non_null(strstr(error.message, "\"toy\""));
            assert_non_null(strstr(error.message, "'x'"));
            assert_non_null(strstr(error.message, cases[i].missing));
        }
    }
}

TEST_MAIN()
