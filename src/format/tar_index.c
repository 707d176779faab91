/* The index of a tar in memory, and as it is kept: tar_index.h. */
#include "format/tar_index.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "io/guard.h"

static const char kind[9] = "TAR    2";

enum { SAMPLES, MEMBERS, KEYS, TEXT, ENDINGS, SHAPES, FRAMES }; /* sections */
enum { BYTES, COPY_BYTES, HIDDEN, BARE, LINKS, TORN };          /* facts */

void leat_tar_index_destroy(struct leat_tar_index *x)
{
    leat_kept_release(&x->kept);
    for (size_t i = 0; i < sizeof x->own / sizeof *x->own; i++)
        leat_free(x->own[i]);
    leat_free(x->own_frames);
    *x = (struct leat_tar_index){0};
}

static struct leat_kept shape(void)
{
    return (struct leat_kept){.sections = {[SAMPLES] = {.each = sizeof(struct leat_tar_sample)},
                                           [MEMBERS] = {.each = sizeof(struct leat_tar_member)},
                                           [KEYS] = {.each = 1},
                                           [TEXT] = {.each = 1},
                                           [ENDINGS] = {.each = sizeof(struct leat_tar_ending)},
                                           [SHAPES] = {.each = sizeof(struct leat_tar_shape)},
                                           [FRAMES] = {.each = sizeof(struct leat_frame)}}};
}

/* Whether a field can have it: no dimension is 0 but the first, and a row has a size. */
static bool is_shape(const struct leat_tar_shape *s)
{
    uint64_t bytes = leat_dtype_size((enum leat_dtype)s->dtype);
    bool good = bytes && s->ndim <= LEAT_MAX_DIMS && s->most <= INT64_MAX;
    for (unsigned d = 1; good && d < s->ndim; d++)
        good = s->shape[d] && leat_mul_u64(bytes, s->shape[d], &bytes) && bytes <= INT64_MAX;
    return good && leat_mul_u64(bytes, s->most > 1 ? s->most : 1, &bytes) && bytes <= INT64_MAX;
}

/* Whether each number of an index lies where it belongs; it may be mapped. */
static int check(void *user)
{
    const struct leat_tar_index *x = user;
    for (uint64_t i = 0; i <= x->count; i++)
        if (x->samples[i].key > x->keys_bytes || x->samples[i].member > x->n_members ||
            (i && (x->samples[i].key <= x->samples[i - 1].key || x->samples[i].member <= x->samples[i - 1].member ||
                   x->keys[x->samples[i].key - 1])))
            return LEAT_E_CORRUPT;
    if (x->samples[0].key || x->samples[0].member || x->samples[x->count].key != x->keys_bytes ||
        x->samples[x->count].member != x->n_members)
        return LEAT_E_CORRUPT;
    for (uint64_t i = 0; i < x->n_members; i++) {
        const struct leat_tar_member *m = &x->members[i];
        const unsigned form = leat_tar_form_of(m);
        if (leat_tar_ending_of(m) >= x->n_endings || leat_tar_at(m) > x->bytes ||
            leat_tar_bytes(m) > x->bytes - leat_tar_at(m) ||
            (form >= LEAT_TAR_ARRAY && (form - LEAT_TAR_ARRAY >= x->n_shapes ||
                                        x->shapes[form - LEAT_TAR_ARRAY].ending != leat_tar_ending_of(m))))
            return LEAT_E_CORRUPT;
    }
    for (uint64_t i = 0; i < x->n_shapes; i++) {
        if (x->shapes[i].ending >= x->n_endings || !is_shape(&x->shapes[i]))
            return LEAT_E_CORRUPT;
    }
    return LEAT_OK;
}

static bool frames_are_right(const struct leat_tar_index *x)
{
    const struct leat_frame *f = x->frames;
    for (uint64_t i = 0; i < x->n_frames; i++)
        if (f[i].in >= f[i + 1].in || f[i].out > f[i + 1].out)
            return false;
    return !x->n_frames || (!f[0].out && f[x->n_frames].out == x->bytes);
}

/* Copies of what is read without a guard later: texts, and tables that are small. */
static bool copy_small(struct leat_tar_index *x)
{
    const struct {
        const void *from;
        uint64_t bytes;
    } parts[] = {{x->keys, x->keys_bytes},
                 {x->endings_text, x->kept.sections[TEXT].count},
                 {x->endings, x->n_endings * sizeof *x->endings},
                 {x->shapes, x->n_shapes * sizeof *x->shapes},
                 {x->frames, x->frames ? (x->n_frames + 1) * sizeof *x->frames : 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!(x->own[i] = leat_alloc((size_t)parts[i].bytes + 1)) ||
            leat_guarded_copy(x->own[i], parts[i].from ? parts[i].from : "", (size_t)parts[i].bytes, NULL))
            return false;
    x->keys = x->own[0];
    x->endings_text = x->own[1];
    x->endings = x->own[2];
    x->shapes = x->own[3];
    x->frames = x->frames ? x->own[4] : NULL;
    return true;
}

bool leat_tar_index_load(struct leat_tar_index *x, const char *path, struct leat_io_file *source, bool trusts)
{
    struct leat_kept k = shape();
    *x = (struct leat_tar_index){0};
    if (!leat_kept_load(&k, path, source, kind, trusts))
        return false;
    *x = (struct leat_tar_index){.n_members = k.sections[MEMBERS].count,
                                 .bytes = k.facts[BYTES],
                                 .samples = k.sections[SAMPLES].data,
                                 .members = k.sections[MEMBERS].data,
                                 .keys = k.sections[KEYS].data,
                                 .endings_text = k.sections[TEXT].data,
                                 .endings = k.sections[ENDINGS].data,
                                 .shapes = k.sections[SHAPES].data,
                                 .keys_bytes = k.sections[KEYS].count,
                                 .n_endings = k.sections[ENDINGS].count,
                                 .n_shapes = k.sections[SHAPES].count,
                                 .hidden = k.facts[HIDDEN],
                                 .bare = k.facts[BARE],
                                 .links = k.facts[LINKS],
                                 .torn = k.facts[TORN],
                                 .frames = k.sections[FRAMES].count ? k.sections[FRAMES].data : NULL,
                                 .n_frames = k.sections[FRAMES].count - (k.sections[FRAMES].count > 0),
                                 .copy_bytes = k.facts[COPY_BYTES],
                                 .kept = k};
    const uint64_t text = k.sections[TEXT].count;
    bool good = k.sections[SAMPLES].count && x->n_endings <= LEAT_TAR_ENDINGS;
    x->count = k.sections[SAMPLES].count - 1;
    good = good && copy_small(x) && (!text || !x->endings_text[text - 1]);
    for (uint64_t i = 0; good && i < x->n_endings; i++)
        good = x->endings[i].text < text;
    good = good && !leat_guarded(check, x, NULL) && frames_are_right(x);
    if (!good)
        leat_tar_index_destroy(x);
    return good;
}

bool leat_tar_index_save(struct leat_tar_index *x, const char *path, struct leat_io_file *source)
{
    struct leat_kept k = shape();
    uint64_t text = 0;
    for (uint64_t i = 0; i < x->n_endings; i++)
        text = x->endings[i].text + strlen(x->endings_text + x->endings[i].text) + 1;
    const struct leat_kept_section s[] = {[SAMPLES] = {x->samples, x->count + 1, 0},
                                          [MEMBERS] = {x->members, x->n_members, 0},
                                          [KEYS] = {x->keys, x->keys_bytes, 0},
                                          [TEXT] = {x->endings_text, text, 0},
                                          [ENDINGS] = {x->endings, x->n_endings, 0},
                                          [SHAPES] = {x->shapes, x->n_shapes, 0},
                                          [FRAMES] = {x->frames, x->n_frames ? x->n_frames + 1 : 0, 0}};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        k.sections[i].data = s[i].data;
        k.sections[i].count = s[i].count;
    }
    k.facts[BYTES] = x->bytes;
    k.facts[COPY_BYTES] = x->copy_bytes;
    k.facts[HIDDEN] = x->hidden;
    k.facts[BARE] = x->bare;
    k.facts[LINKS] = x->links;
    k.facts[TORN] = x->torn;
    const bool good = leat_kept_save(&k, path, source, kind);
    leat_free(k.path);
    return good;
}

/* ---- members --------------------------------------------------------------------------------- */

struct finding {
    const struct leat_tar_index *index;
    uint64_t sample, number;
    size_t ending;
    bool found;
    struct leat_tar_member *out;
    struct leat_tar_sample *at;
};

static int find(void *user)
{
    struct finding *f = user;
    const struct leat_tar_index *x = f->index;
    if (f->at) {
        *f->at = x->samples[f->sample];
        return LEAT_OK;
    }
    uint64_t end = x->samples[f->sample + 1].member;
    end = end < x->n_members ? end : x->n_members;
    for (uint64_t i = x->samples[f->sample].member; i < end && !f->found; i++)
        if (leat_tar_ending_of(&x->members[i]) == f->ending) {
            *f->out = x->members[i];
            f->number = i;
            f->found = true;
        }
    return LEAT_OK;
}

static int run(struct finding *f, struct leat_error *error)
{
    return f->index->kept.file ? leat_guarded(find, f, error) : find(f); /* mapped, or memory */
}

int leat_tar_index_find(const struct leat_tar_index *x, uint64_t sample, size_t ending, bool *found,
                        struct leat_tar_member *out, struct leat_error *error)
{
    struct finding f = {.index = x, .sample = sample, .ending = ending, .out = out};
    const int rc = run(&f, error);
    *found = f.found;
    return rc;
}

int leat_tar_index_sample(const struct leat_tar_index *x, uint64_t sample, struct leat_tar_sample *out,
                          struct leat_error *error)
{
    struct finding f = {.index = x, .sample = sample, .at = out};
    const int rc = run(&f, error);
    if (!rc && out->key >= x->keys_bytes) /* it has changed while it was open */
        return leat_fail(error, LEAT_E_IO,
                         "the index of a tar has changed while it was in use: open the data set again");
    return rc;
}

int leat_tar_index_number(const struct leat_tar_index *x, uint64_t sample, size_t ending, uint64_t *out,
                          struct leat_error *error)
{
    struct leat_tar_member member;
    struct finding f = {.index = x, .sample = sample, .ending = ending, .out = &member};
    const int rc = run(&f, error);
    *out = f.number;
    return rc;
}
