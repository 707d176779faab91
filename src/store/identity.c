/*
 * The header has room for a hash of the options, not for the options. But each option has few values, so searching for
 * the hash finds them: there are 24 combinations of check, on_bad, photos and lenient, 65536 sides and a hundred
 * qualities. It does not find a shard_bytes that nobody would type, nor a change of shard and photo sizes at once.
 */
#include "store/identity.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

enum { LENIENT = 4, MAX_SIDE = 65535, MAX_QUALITY = 100, DEFAULT_QUALITY = 90 };

/* The options that decide the stored bytes. */
struct choice {
    uint64_t check, skip, shard_bytes, max_side,
        quality;     /* RAISE and MARK write the same: a pack that RAISE has stopped can be resumed with MARK */
    uint64_t photos; /* and LENIENT */
};

static struct choice choice_of(const struct leat_writer_options *o, bool images)
{
    return (struct choice){o->check,       o->on_bad == LEAT_BAD_SKIP,
                           o->shard_bytes, o->max_side,
                           o->quality,     images ? o->photos + (o->lenient ? LENIENT : 0) : 0};
}

static uint64_t hash_choice(const struct choice *c)
{
    const uint64_t numbers[5] = {c->check, c->skip, c->shard_bytes, c->max_side, c->max_side ? c->quality : 0};
    const uint64_t hash = leat_hash64(numbers, sizeof numbers);
    const uint64_t more[2] = {hash, c->photos};
    return c->photos ? leat_hash64(more, sizeof more) : hash; /* any version can resume a file that ORIGINAL has
                                                               * written */
}

static uint64_t hash_text(uint64_t seed, const char *text)
{
    const uint64_t pair[2] = {seed, leat_hash64(text, strlen(text))};
    return leat_hash64(pair, sizeof pair);
}

static uint64_t hash_content(const char *const *classes, size_t n, const char *metadata)
{
    uint64_t hash = hash_text(n, metadata);
    for (size_t i = 0; i < n; i++)
        hash = hash_text(hash, classes[i]);
    return hash;
}

static uint64_t hash_roles(const struct leat_store_layout *layout, uint64_t content)
{
    uint8_t roles[LEAT_STORE_MAX_FIELDS];
    const bool any = leat_store_roles_put(layout, roles);
    const uint64_t pair[2] = {content, any ? leat_hash64(roles, layout->n_stored) : 0};
    uint64_t hash = any ? leat_hash64(pair, sizeof pair) : content;
    for (uint32_t f = 0; f < layout->n_stored; f++) {
        const struct leat_field *field = &layout->fields[f];
        const uint64_t of[3] = {hash, f, leat_hash64(field->pairs, 2 * field->n_pairs * sizeof *field->pairs)};
        hash = field->n_pairs ? leat_hash64(of, sizeof of) : hash;
        const uint64_t sparse[4] = {hash, f, field->item, (uint64_t)field->columns};
        hash = field->columns ? leat_hash64(sparse, sizeof sparse) : hash;
    }
    return hash;
}

struct leat_store_identity leat_identity_of(const struct leat_writer_options *o, const struct leat_store_layout *layout,
                                            const char *metadata)
{
    const struct choice choice = choice_of(o, layout->n_encoded > 0);
    return (struct leat_store_identity){.options = hash_choice(&choice),
                                        .source = o->source_id ? hash_text(1, o->source_id) : 0,
                                        .content =
                                            hash_roles(layout, hash_content(o->classes, o->n_classes, metadata))};
}

/* ---- searching ------------------------------------------------------------------------------- */

static bool try(struct choice *c, uint64_t *field, uint64_t value, uint64_t want)
{
    const uint64_t before = *field;
    *field = value;
    if (hash_choice(c) == want)
        return true;
    *field = before;
    return false;
}

static bool find_side_and_quality(struct choice *c, uint64_t want, bool all)
{
    const struct choice begin = *c;
    for (uint64_t side = 0; side <= MAX_SIDE; side++) {
        c->max_side = side;
        for (uint64_t quality = 1; quality <= MAX_QUALITY && all; quality++)
            if (try(c, &c->quality, quality, want))
                return true;
        if (try(c, &c->quality, begin.quality, want) || try(c, &c->quality, DEFAULT_QUALITY, want))
            return true;
    }
    *c = begin;
    for (uint64_t quality = 1; quality <= MAX_QUALITY; quality++)
        if (try(c, &c->quality, quality, want))
            return true;
    return false;
}

/* Sizes that a person gives: up to four digits, and a unit. */
static bool find_shard_bytes(struct choice *c, uint64_t want)
{
    static const uint64_t units[] = {
        1, 1000, 1000000, 1000000000, UINT64_C(1) << 10, UINT64_C(1) << 20, UINT64_C(1) << 30};
    for (size_t u = 0; u < sizeof units / sizeof *units && c->shard_bytes;
         u++) /* one file or shards: told apart before */
        for (uint64_t n = 1; n < 10000; n++)
            if (try(c, &c->shard_bytes, n * units[u], want))
                return true;
    return false;
}

/* In the second round, which takes much longer, both the side and the quality have changed. */
static bool find_choice(const struct choice *now, bool images, uint64_t want, struct choice *then)
{
    for (int all = 0; all <= (images ? 1 : 0); all++)
        for (unsigned small = 0; small < (images ? 28 : 4); small++) {
            *then = *now;
            then->check = small & 1;
            then->skip = small >> 1 & 1;
            then->photos = small >> 2;
            if (then->photos % LENIENT > LEAT_PHOTOS_RAW)
                continue;
            if (hash_choice(then) == want || (!all && find_shard_bytes(then, want)) ||
                (images && find_side_and_quality(then, want, all)))
                return true;
        }
    return false;
}

/* ---- saying ---------------------------------------------------------------------------------- */

struct text {
    char *out;
    size_t room, used;
    unsigned parts; /* begun so far */
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(t->out + t->used, t->room - t->used, format, args);
    va_end(args);
    t->used += n > 0 ? (size_t)n : 0;
    t->used = t->used < t->room ? t->used : t->room - 1;
}

static void begin_part(struct text *t, const char *what)
{
    add(t, "%s%s", t->parts++ ? " and " : "", what);
}

static void say_number(struct text *t, const char *name, uint64_t then, uint64_t now)
{
    if (then == now)
        return;
    char texts[2][24] = {"none", "none"};
    if (then)
        snprintf(texts[0], sizeof texts[0], "%" PRIu64, then);
    if (now)
        snprintf(texts[1], sizeof texts[1], "%" PRIu64, now);
    add(t, "%s%s: %s then, %s now", t->out[t->used - 1] == '(' ? "" : "; ", name, texts[0], texts[1]);
}

static void say_word(struct text *t, const char *name, const char *then, const char *now)
{
    if (strcmp(then, now) != 0)
        add(t, "%s%s: %s then, %s now", t->out[t->used - 1] == '(' ? "" : "; ", name, then, now);
}

/* `images`: whether the file that was begun has some; `now`: the new request. */
static void say_options(struct text *t, uint64_t want, bool images, const struct choice *now, enum leat_on_bad on_bad)
{
    static const char *const photos[] = {"original", "fast", "raw"}, *const bad[] = {"mark", "skip", "raise"};
    struct choice then;
    begin_part(t, "the options (");
    if (!find_choice(now, images, want, &then)) {
        add(t, "which of check, on_bad, shard_bytes, max_side, quality, photos and lenient the file does not say: it "
               "has but a "
               "hash of them)");
        return;
    }
    say_word(t, "check", then.check ? "on" : "off", now->check ? "on" : "off");
    if (then.skip != now->skip)
        say_word(t, "on_bad", then.skip ? "skip" : "not skip", bad[on_bad]);
    say_number(t, "shard_bytes", then.shard_bytes, now->shard_bytes);
    say_number(t, "max_side", then.max_side, now->max_side);
    if (then.max_side)
        say_number(t, "quality", then.quality, now->quality);
    say_word(t, "photos", photos[then.photos % LENIENT], photos[now->photos % LENIENT]);
    say_word(t, "lenient", then.photos & LENIENT ? "on" : "off", now->photos & LENIENT ? "on" : "off");
    add(t, ")");
}

static void say_content(struct text *t, uint64_t want, const struct leat_writer_options *options, const char *metadata)
{
    if (want == hash_content(options->classes, options->n_classes, "{}"))
        begin_part(t, "the metadata (there were none then)");
    else if (want == hash_content(NULL, 0, metadata))
        begin_part(t, "the classes (there were none then)");
    else
        begin_part(t, "the classes or the metadata");
}

static bool has_field(const struct leat_store_layout *l, const char *name)
{
    for (uint32_t f = 0; f < l->n_stored; f++)
        if (!strcmp(l->names[f], name))
            return true;
    return false;
}

/* The difference of two schemas: a field that only one has, else the types or the order of fields. */
static void say_schema(struct text *t, const struct leat_store_layout *then, const struct leat_store_layout *now)
{
    begin_part(t, "the schema (");
    const size_t begin = t->used;
    for (uint32_t f = 0; f < then->n_stored; f++)
        if (!has_field(now, then->names[f]))
            say_word(t, then->names[f], "there", "not");
    for (uint32_t f = 0; f < now->n_stored; f++)
        if (!has_field(then, now->names[f]))
            say_word(t, now->names[f], "not there", "there");
    add(t, "%s)", t->used == begin ? "types or order of its fields" : "");
}

void leat_identity_differences(const struct leat_store_identity *then, const struct leat_store_layout *then_layout,
                               const struct leat_store_identity *now, const struct leat_store_layout *now_layout,
                               const struct leat_writer_options *options, const char *metadata, char *out, size_t room)
{
    struct text t = {.out = out, .room = room};
    out[0] = 0;
    if (then->source != now->source)
        begin_part(&t, "the source");
    if (then->options != now->options) {
        const struct choice choice = choice_of(options, now_layout->n_encoded > 0);
        say_options(&t, then->options, then_layout->n_encoded > 0, &choice, options->on_bad);
    }
    if (then->content != now->content)
        say_content(&t, then->content, options, metadata);
    if (!t.parts || then_layout->n_stored != now_layout->n_stored)
        say_schema(&t, then_layout, now_layout);
}
