/* The table of formats of photos (codec/photo/formats.def): each format is found by all that it says of itself. */
#include <ctype.h>
#include <dirent.h>

#include "../folder.h"
#include "codec/photo/photo.h"
#include "format/listing.h"

enum { ROOM = 1 << 20 };

/* The next suffix of a list: ".jpg" of ".jpg, .jpeg". False: there is none. */
static bool next_suffix(const char **list, char out[16])
{
    *list += strspn(*list, ", ");
    const size_t n = strcspn(*list, ",");
    assert_true(n < 16);
    snprintf(out, 16, "%.*s", (int)n, *list);
    *list += n;
    return n;
}

#define EACH_FORMAT(f)                                                                                                 \
    for (const struct leat_photo_format *f = leat_photo_formats; f < leat_photo_formats + LEAT_PHOTO_FORMATS; f++)

TEST(each_suffix_is_that_of_a_photo_in_any_case_and_is_listed_in_a_folder)
{
    struct leat_listing listing;
    struct leat_error error;
    char suffix[16], name[32];
    size_t n = 0;
    EACH_FORMAT(f)
    {
        const char *list = f->suffixes;
        while (next_suffix(&list, suffix)) {
            for (unsigned upper = 0; upper < 2; upper++, n++) {
                for (char *p = suffix; upper && *p; p++)
                    *p = (char)toupper(*p);
                snprintf(name, sizeof name, "a%s", suffix);
                assert_true(leat_photo_has_suffix(name));
                files_write_text(folder, name, "");
                snprintf(name, sizeof name, "a%sx", suffix);
                assert_false(leat_photo_has_suffix(name));
            }
            assert_non_null(strstr(leat_listing_suffixes, f->suffixes));
        }
    }
    static const char *const others[] = {"a", "jpg", "a.", "a.jp", "a.jpg,", "a.jpg, ", "a.jpg.txt"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(leat_photo_has_suffix(others[i]));
    assert_ok(leat_listing_scan(folder, &listing, &error));
    assert_int_equal(listing.n_files, n);
    assert_int_equal(listing.others, 0);
    leat_listing_destroy(&listing);
}

TEST(each_number_and_suffix_on_replay_is_that_of_one_format)
{
    EACH_FORMAT(f)
    {
        assert_string_equal(leat_photo_kind_name(f->kind), f->name);
        assert_string_equal(leat_photo_kind_suffix(f->kind), f->written);
        assert_non_null(strstr(f->suffixes, f->written));
        assert_true(f->kind && f->kind <= UINT8_MAX);
        EACH_FORMAT(g)
        {
            const char *list = g->suffixes;
            char suffix[16];
            while (next_suffix(&list, suffix))
                assert_true(f == g || strcmp(suffix, f->written) != 0);
            assert_true(f == g || f->kind != g->kind);
        }
    }
    assert_string_equal(leat_photo_kind_name(LEAT_IMAGE_JPEG_PROGRESSIVE), "progressive JPEG");
    assert_string_equal(leat_photo_kind_suffix(LEAT_IMAGE_JPEG_OTHER), ".jpg");
    assert_string_equal(leat_photo_kind_name(0), "other");
    assert_string_equal(leat_photo_kind_suffix(UINT_MAX), ".bin");
}

TEST(no_format_has_the_magic_of_another)
{
    uint8_t bytes[64];
    EACH_FORMAT(f)
    {
        assert_non_null(f->magic[0].bytes);
        for (const struct leat_photo_magic *magic = f->magic; magic->bytes; magic++) {
            assert_true(magic->n <= sizeof bytes);
            memcpy(bytes, magic->bytes, magic->n);
            EACH_FORMAT(g) assert_int_equal(leat_photo_has_magic(g, bytes, magic->n), f == g);
            assert_false(leat_photo_has_magic(f, bytes, magic->n - 1));
        }
    }
}

/* Reads SOURCE/path and ends it with a zero byte. */
static size_t read_source(const char *path, char *out)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/%s", SOURCE, path);
    FILE *file = fopen(name, "rb");
    if (!file)
        fail_msg("%s is not there", name);
    const size_t n = fread(out, 1, ROOM - 1, file);
    assert_true(n < ROOM - 1);
    fclose(file);
    out[n] = 0;
    return n;
}

static const char *const ids[] = {
#define LEAT_PHOTO(id, ...) #id,
#include "codec/photo/formats.def"
#undef LEAT_PHOTO
};

TEST(the_photos_in_the_corpus_of_each_format_are_recognised_as_it)
{
    static char bytes[ROOM];
    EACH_FORMAT(f)
    {
        char path[PATH_MAX], name[2 * PATH_MAX];
        struct leat_value_info info;
        struct dirent *e;
        size_t n = 0;
        snprintf(path, sizeof path, "%s/fuzz/corpus/fuzz_decode_%s", SOURCE, ids[f - leat_photo_formats]);
        DIR *dir = opendir(path);
        assert_non_null(dir);
        while ((e = readdir(dir))) {
            snprintf(name, sizeof name, "%s/%s", path + strlen(SOURCE) + 1, e->d_name);
            if (*e->d_name == '.' || leat_codec_photo.probe(bytes, read_source(name, bytes), &info, NULL))
                continue;
            assert_string_equal(leat_photo_kind_suffix(info.kind), f->written);
            n++;
        }
        closedir(dir);
        assert_true(n);
    }
}

TEST(a_decoder_asks_for_the_headers_that_the_table_says)
{
    static char text[ROOM];
    char path[64];
    EACH_FORMAT(f)
    {
        snprintf(path, sizeof path, "src/codec/photo/decode_%s.c", ids[f - leat_photo_formats]);
        read_source(path, text);
        assert_non_null(strstr(text, f->needs ? f->needs : ""));
        assert_int_equal(strstr(text, "LEAT_HAVE_") != NULL, f->needs != NULL);
    }
}

TEST(the_documentation_has_a_line_of_each_format_and_no_others)
{
    static char text[ROOM];
    read_source("docs/photos.md", text);
    char *line = strstr(text, "\n|---");
    assert_non_null(line);
    line = strchr(line + 1, '\n');
    EACH_FORMAT(f)
    {
        char wanted[256], suffix[16];
        const char *list = f->suffixes;
        int n = snprintf(wanted, sizeof wanted, "\n| %s |", f->name);
        for (const char *before = " "; next_suffix(&list, suffix); before = ", ")
            n += snprintf(wanted + n, sizeof wanted - (size_t)n, "%s`%s`", before, suffix);
        n += snprintf(wanted + n, sizeof wanted - (size_t)n, " | %u | `%s` |", f->kind, f->written);
        if (strncmp(line, wanted, (size_t)n) != 0)
            fail_msg("docs/photos.md lacks the line%s", wanted);
        line = strchr(line + 1, '\n');
    }
    assert_true(line && line[1] != '|');
}

TEST_MAIN_IN(make_folder, remove_folder)
