#include "../codecs.h"
#include "../files.h"
#include "codec/codec.h"
#include "codec/photo/photo.h"

enum { TOY = LEAT_KIND_IMAGE + 1 };

TEST(a_kind_has_the_name_that_its_codec_gives_it)
{
    struct leat_codec toy = leat_codec_photo;
    toy.kind = (enum leat_kind)TOY;
    toy.kind_name = "toy";
    assert_string_equal(leat_kind_name(LEAT_KIND_ARRAY), "array");
    assert_string_equal(leat_kind_name(LEAT_KIND_JSON), "json");
    assert_string_equal(leat_kind_name(LEAT_KIND_IMAGE), "image");
    static const int unknown[] = {-1, 0, TOY, 1000};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_string_equal(leat_kind_name((enum leat_kind)unknown[i]), "");
    codec_instead = &toy;
    assert_string_equal(leat_kind_name((enum leat_kind)TOY), "toy");
    assert_string_equal(leat_kind_name((enum leat_kind)(TOY + 1)), "");
    codec_instead = NULL;
}

TEST(a_schema_takes_each_kind_that_has_a_codec)
{
    struct leat_codec toy = leat_codec_photo;
    const struct leat_field field = {.name = "x", .kind = (enum leat_kind)TOY, .dtype = LEAT_U8};
    const struct leat_writer_options options = LEAT_WRITER_OPTIONS_INIT;
    char folder[PATH_MAX], path[PATH_MAX + 16];
    struct leat_writer *writer;
    struct leat_error error;
    toy.kind = (enum leat_kind)TOY;
    toy.kind_name = "toy";
    files_folder(folder);
    snprintf(path, sizeof path, "%s/toys.leat", folder);
    assert_int_equal(leat_writer_open(path, &field, 1, &options, &writer, &error), LEAT_E_INVALID);
    codec_instead = &toy;
    assert_ok(leat_writer_open(path, &field, 1, &options, &writer, &error));
    leat_writer_free(writer, false);
    codec_instead = NULL;
    files_remove(folder);
}

TEST_MAIN()
