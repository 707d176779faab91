/* Rows cut from documents: compared with joining the documents of a pass in memory and cutting them. */
#include "base/alloc.h"
#include "base/permute.h"
#include "common.h"

#define TAG_ORDER ((UINT64_C(1) << 63) | 1)
#define TAG_DOCUMENTS ((UINT64_C(1) << 63) | 3)

struct corpus {
    uint64_t documents, elements, *lengths;
};

static struct corpus make_corpus(uint64_t key, uint64_t documents, uint64_t longest)
{
    struct corpus c = {documents, 0, calloc(documents + 1, sizeof(uint64_t))};
    assert_non_null(c.lengths);
    for (uint64_t i = 0; i < documents; i++)
        c.elements += c.lengths[i] = draw(key, i, 0, longest);
    return c;
}

static struct leat_plan *open_plan(const struct corpus *c, enum leat_order order, uint64_t length, bool partial,
                                   uint64_t seed, uint64_t global, uint32_t rank, uint32_t world)
{
    struct leat_pack_spec pack = {.length = length, .lengths = c->lengths, .partial = partial};
    struct leat_plan_source source = {.count = c->documents, .order = {.order = order, .block_rows = 3}, .pack = &pack};
    return make_plan(&source, 1, 0, seed, global, rank, world, LEAT_TAIL_PAD);
}

/* Element `at` of the joined documents of an epoch as document * 2^32 + place in it. */
static uint64_t *join(const struct corpus *c, bool shuffled, uint64_t seed, uint64_t epoch)
{
    uint64_t *all = calloc(c->elements + 1, sizeof *all), n = 0;
    uint64_t pass = leat_key_mix(leat_key_mix(leat_key_mix(seed, TAG_ORDER), 0), epoch);
    struct leat_permutation order = leat_permutation_init(c->documents, leat_key_mix(pass, TAG_DOCUMENTS));
    assert_non_null(all);
    for (uint64_t i = 0; i < c->documents; i++) {
        uint64_t document = shuffled ? leat_permute(&order, i) : i;
        for (uint64_t k = 0; k < c->lengths[document]; k++)
            all[n++] = document << 32 | k;
    }
    return all;
}

/* Row number `row` of the cut, as a permutation of the rows has put it somewhere. */
static uint64_t number_of(uint64_t seed, uint64_t epoch, bool shuffled, uint64_t rows, uint64_t i)
{
    uint64_t pass = leat_key_mix(leat_key_mix(leat_key_mix(seed, TAG_ORDER), 0), epoch);
    struct leat_permutation order = leat_permutation_init(rows, pass);
    return shuffled ? leat_permute(&order, i) : i;
}

static void compare(const struct corpus *c, enum leat_order order, uint64_t length, bool partial, uint64_t seed,
                    uint32_t world)
{
    bool shuffled = order == LEAT_ORDER_SHUFFLED;
    uint64_t rows = c->elements / length + (partial && c->elements % length), seen = 0;
    struct leat_plan *plan[4];
    struct leat_pieces pieces = {0};
    for (uint32_t r = 0; r < world; r++)
        plan[r] = open_plan(c, order, length, partial, seed, 2 * world + 1, r, world);
    assert_int_equal(leat_plan_epoch_rows(plan[0], 5), rows);
    uint64_t *all = join(c, shuffled, seed, 5);
    struct leat_plan_batch batch;
    for (struct leat_position at = {5, 0}; leat_plan_batch(plan[0], at, &batch) == LEAT_OK; at = batch.next)
        for (uint32_t r = 0; r < world; r++) {
            assert_int_equal(leat_plan_batch(plan[r], at, &batch), LEAT_OK);
            struct leat_plan_row *found = calloc(batch.rows + 1, sizeof *found);
            assert_int_equal(leat_plan_rows(plan[r], &batch, 0, batch.rows, found), LEAT_OK);
            assert_int_equal(leat_plan_pieces(plan[r], found, batch.rows, &pieces), LEAT_OK);
            for (uint64_t i = 0; i < batch.rows; i++) {
                uint64_t number = number_of(seed, 5, shuffled, rows, found[i].row % rows), from = number * length,
                         n = 0;
                for (uint32_t k = 0; k <= found[i].n_more; k++) {
                    const struct leat_piece *p = k ? &found[i].more[k - 1] : &found[i].piece;
                    assert_true(p->count > 0);
                    for (uint64_t e = 0; e < p->count; e++, n++)
                        assert_int_equal(all[from + n], p->position << 32 | (p->begin + e));
                }
                assert_int_equal(n, c->elements - from < length ? c->elements - from : length);
                seen += found[i].valid;
            }
            free(found);
        }
    assert_int_equal(seen, rows);
    free(all);
    leat_free(pieces.at);
    for (uint32_t r = 0; r < world; r++)
        leat_plan_free(plan[r]);
}

TEST(rows_are_cut_from_the_joined_documents_of_the_pass)
{
    for (uint64_t k = 0; k < 200; k++) {
        struct corpus c = make_corpus(k, draw(99, 6 * k, 1, 90), draw(99, 6 * k + 1, 1, 40));
        enum leat_order order = k % 2 ? LEAT_ORDER_SHUFFLED : LEAT_ORDER_SEQUENTIAL;
        if (c.elements >= 9)
            compare(&c, order, draw(99, 6 * k + 2, 1, 9), k % 3 == 0, k, (uint32_t)draw(99, 6 * k + 3, 1, 4));
        free(c.lengths);
    }
}

/* Rows that cut no document, each padded to a multiple: every element once, and room for the padding. */
static void fit(const struct corpus *c, uint64_t length, uint64_t multiple, uint32_t world)
{
    struct leat_pack_spec pack = {
        .how = LEAT_PACK_BEST_FIT, .length = length, .lengths = c->lengths, .seed = 7, .multiple = multiple};
    struct leat_plan_source source = {.count = c->documents, .order = {.order = LEAT_ORDER_SHUFFLED}, .pack = &pack};
    uint64_t *seen = calloc(c->documents + 1, sizeof *seen);
    struct leat_pieces pieces = {0};
    assert_non_null(seen);
    for (uint32_t r = 0; r < world; r++) {
        struct leat_plan *plan = make_plan(&source, 1, 0, 3, world, r, world, LEAT_TAIL_PAD);
        struct leat_plan_batch batch;
        for (struct leat_position at = {1, 0}; leat_plan_batch(plan, at, &batch) == LEAT_OK; at = batch.next) {
            struct leat_plan_row row;
            assert_int_equal(batch.rows, 1);
            assert_int_equal(leat_plan_rows(plan, &batch, 0, 1, &row), LEAT_OK);
            assert_int_equal(leat_plan_pieces(plan, &row, 1, &pieces), LEAT_OK);
            uint64_t room = 0;
            for (uint32_t k = 0; k <= row.n_more; k++) {
                const struct leat_piece *p = k ? &row.more[k - 1] : &row.piece;
                assert_true(p->count > 0 && p->begin % length == 0);
                assert_true(p->begin + p->count == c->lengths[p->position] || p->count == length);
                room += (p->count + multiple - 1) / multiple * multiple;
                seen[p->position] += row.valid ? p->count : 0;
            }
            assert_true(room <= length);
        }
        leat_plan_free(plan);
    }
    assert_memory_equal(seen, c->lengths, c->documents * sizeof *seen);
    leat_free(pieces.at);
    free(seen);
}

TEST(documents_take_up_a_multiple_of_elements)
{
    for (uint64_t k = 0; k < 100; k++) {
        struct corpus c = make_corpus(k, draw(98, 4 * k, 1, 60), draw(98, 4 * k + 1, 1, 60));
        const uint64_t multiple = draw(98, 4 * k + 2, 1, 9);
        if (c.elements)
            fit(&c, multiple * draw(98, 4 * k + 3, 1, 9), multiple, (uint32_t)(1 + k % 3));
        free(c.lengths);
    }
}

TEST(a_multiple_that_does_not_divide_the_length_is_refused)
{
    uint64_t lengths[] = {3, UINT32_MAX};
    struct leat_pack_spec pack = {.how = LEAT_PACK_BEST_FIT, .length = 20, .lengths = lengths, .multiple = 8};
    struct leat_plan_source source = {.count = 2, .pack = &pack};
    struct leat_plan_spec spec = {.sources = &source, .n_sources = 1, .global_batch = 1, .world_size = 1};
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_INVALID);
    assert_non_null(strstr(error.message, "must divide the length"));
    pack.length = 16;
    assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "document 1"));
    pack.how = LEAT_PACK_CUT;
    assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_INVALID);
}

TEST(documents_without_elements_give_no_piece)
{
    uint64_t lengths[] = {0, 0, 3, 0, 1, 0, 0};
    struct corpus c = {7, 4, lengths};
    compare(&c, LEAT_ORDER_SEQUENTIAL, 2, true, 1, 1);
    compare(&c, LEAT_ORDER_SHUFFLED, 3, true, 1, 1);
}

TEST(a_substitute_is_another_row_of_the_same_pass)
{
    struct corpus c = make_corpus(7, 50, 20);
    struct leat_plan *plan = open_plan(&c, LEAT_ORDER_SHUFFLED, 8, false, 3, 4, 0, 1);
    struct leat_plan_batch batch;
    struct leat_plan_row row[2];
    assert_int_equal(leat_plan_batch(plan, (struct leat_position){2, 0}, &batch), LEAT_OK);
    assert_int_equal(leat_plan_rows(plan, &batch, 0, 1, row), LEAT_OK);
    row[1] = row[0];
    row[1].piece = leat_plan_substitute(plan, 2, row[0].row, 0);
    assert_int_equal(row[1].piece.count, LEAT_PIECE_PACKED);
    assert_int_equal(row[1].piece.begin, 2);
    assert_int_not_equal(row[1].piece.position, row[0].piece.position);
    leat_plan_free(plan);
    free(c.lengths);
}

TEST(a_state_of_other_documents_is_refused)
{
    struct corpus c = make_corpus(7, 50, 20);
    struct leat_plan *plan = open_plan(&c, LEAT_ORDER_SHUFFLED, 8, false, 3, 4, 0, 1);
    uint64_t moved = c.lengths[3];
    c.lengths[3] = c.lengths[4] + 1;
    c.lengths[4] = moved > 1 ? moved - 1 : 0;
    struct leat_plan *other = open_plan(&c, LEAT_ORDER_SHUFFLED, 8, false, 3, 4, 0, 1);
    const uint8_t print[16] = {0};
    char *json;
    struct leat_position at;
    struct leat_error error = {0};
    assert_int_equal(plan_state(plan, print, (struct leat_position){1, 4}, &json, &error), LEAT_OK);
    assert_int_equal(plan_load(plan, print, json, &at, &error), LEAT_OK);
    assert_int_equal(at.row, 4);
    assert_int_equal(plan_load(other, print, json, &at, &error), LEAT_E_STATE);
    assert_non_null(strstr(error.message, "documents of other lengths"));
    leat_free(json);
    leat_plan_free(plan);
    leat_plan_free(other);
    free(c.lengths);
}

/* As an earlier leat packed an empty document: as its bos and eos. */
TEST(a_state_of_other_pieces_of_empty_documents_is_refused)
{
    static const enum leat_pack_how ways[] = {LEAT_PACK_CUT, LEAT_PACK_BEST_FIT, LEAT_PACK_PAD};
    static const uint64_t before[] = {5, 2, 7, 2, 4, 9, 3}, now[] = {5, 0, 7, 0, 4, 9, 3};
    for (size_t way = 0; way < 3; way++)
        for (uint32_t sources = 1; sources <= 40; sources += 39) {
            struct leat_pack_spec packs[2] = {{.how = ways[way], .length = 4, .lengths = before, .partial = true},
                                              {.how = ways[way], .length = 4, .lengths = now, .partial = true}};
            struct leat_plan_source all[2][40];
            struct leat_plan *plans[2];
            for (size_t k = 0; k < 2; k++) {
                for (uint32_t i = 0; i < sources; i++)
                    all[k][i] =
                        (struct leat_plan_source){.count = 7, .pack = &packs[i ? 1 : k], .share = 1.0 / sources};
                plans[k] = make_plan(all[k], sources, sources > 1 ? 200 : 0, 3, 2, 0, 1, LEAT_TAIL_PAD);
            }
            const uint8_t print[16] = {0};
            char *json;
            struct leat_position at = {9, 9};
            struct leat_error error = {0};
            assert_int_equal(plan_state(plans[0], print, (struct leat_position){0, 2}, &json, &error), LEAT_OK);
            assert_int_equal(plan_load(plans[0], print, json, &at, &error), LEAT_OK);
            at = (struct leat_position){9, 9};
            assert_int_equal(plan_load(plans[1], print, json, &at, &error), LEAT_E_STATE);
            assert_true(at.epoch == 9 && at.row == 9);
            leat_free(json);
            leat_plan_free(plans[0]);
            leat_plan_free(plans[1]);
        }
}

TEST(a_document_that_is_too_long_is_refused_by_number)
{
    uint64_t lengths[] = {3, UINT64_C(1) << 32};
    struct leat_pack_spec pack = {.length = 4, .lengths = lengths};
    struct leat_plan_source source = {.count = 2, .pack = &pack};
    struct leat_plan_spec spec = {.sources = &source, .n_sources = 1, .global_batch = 1, .world_size = 1};
    struct leat_plan *plan;
    struct leat_error error = {0};
    assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_RANGE);
    assert_non_null(strstr(error.message, "document 1"));
    lengths[1] = 5;
    pack.length = 0;
    assert_int_equal(leat_plan_new(&spec, &plan, &error), LEAT_E_INVALID);
}

TEST_MAIN()
