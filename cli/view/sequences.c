/*
 * Sequences as lines of residues:
 *
 *     sample 4: sp|P1, 7,204 residues
 *     a description
 *           0  MHPKIFALLA KFPRVELIPW ...      the number of a line's first residue, from 0
 *          60  ...
 *              ... 6,600 residues ...         left out, and not read
 *       7,140  ...
 */
#include "view/sequences.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "print.h"

enum { NUMBER = 13, SHADES = 24, FIRST_SHADE = 232, BEST = 42 };

bool cli_sequences_find(const struct leat_dataset *dataset, const char *named, struct cli_sequences *out)
{
    size_t n;
    uint64_t counts[256];
    const struct leat_field *fields = leat_dataset_fields(dataset, &n);
    out->names = cli_field(dataset, "name");
    out->descriptions = cli_field(dataset, "description");
    out->qualities = -1;
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        const bool wanted = !found && (!named || !strcmp(named, fields[i].name));
        const bool quality = !strcmp(fields[i].name, "quality");
        if (!wanted && !quality)
            continue;
        const enum cli_letters letters = cli_letters_of(dataset, i, counts);
        if (wanted && letters == CLI_RESIDUES) {
            out->field = i;
            out->alphabet = cli_alphabet_of(counts);
            found = true;
        }
        if (quality && letters == CLI_QUALITIES)
            out->qualities = (int)i;
    }
    if (out->names >= 0 && fields[out->names].kind != LEAT_KIND_STR)
        out->names = -1;
    if (out->descriptions >= 0 && fields[out->descriptions].kind != LEAT_KIND_STR)
        out->descriptions = -1;
    return found;
}

int cli_sequences_begin(struct cli_sequences *s, struct leat_error *error)
{
    return leat_dataset_column(s->chosen, s->field, true, true, &s->value, error);
}

void cli_sequences_clear(struct cli_sequences *s)
{
    leat_value_clear(&s->value);
}

/* ---- one sequence ---------------------------------------------------------------------------- */

void cli_sequence_plan(const struct cli_sequences *s, size_t i, struct cli_sequence *out)
{
    const uint64_t length = ((const uint64_t *)s->value.data)[i], most = s->most;
    *out = (struct cli_sequence){.length = length, .n_parts = 1};
    if (s->begin != UINT64_MAX) {
        const uint64_t there = s->begin < length ? length - s->begin : 0;
        out->parts[0] = (struct cli_part){.begin = s->begin, .n = there < most ? there : most};
        return;
    }
    out->parts[0].n = length < most ? length : most;
    if (length <= most || most < 4 * CLI_LINE)
        return;
    const uint64_t last = most / 4 / CLI_LINE * CLI_LINE, from = (length - last + CLI_LINE - 1) / CLI_LINE * CLI_LINE;
    out->parts[0].n = most - last;
    if (from < length)
        out->parts[out->n_parts++] = (struct cli_part){.begin = from, .n = length - from};
}

/* The beginning of a text. */
static void read_text(const struct cli_sequences *s, size_t i, int field, char *out, size_t room)
{
    struct leat_value value;
    char text[400];
    out[0] = 0;
    if (field < 0 || leat_dataset_read(s->chosen, i, (size_t)field, &value, NULL))
        return;
    size_t n = value.length < sizeof text - 1 ? (size_t)value.length : sizeof text - 1;
    while (n < value.length && n && (((const uint8_t *)value.data)[n] & 0xc0) == 0x80) /* not within a character */
        n--;
    for (size_t k = 0; k < n; k++)
        text[k] = ((const char *)value.data)[k] ? ((const char *)value.data)[k] : ' ';
    text[n] = 0;
    leat_escape(text, out, room);
    leat_value_clear(&value);
}

/* The bytes of a part in a field; fewer than the residues are filled up with `fill`. */
static int read_part(const struct cli_sequences *s, size_t i, size_t field, const struct cli_part *part, uint8_t **out,
                     struct leat_error *error)
{
    struct leat_value value;
    int rc = leat_dataset_read_part(s->chosen, i, field, part->begin, part->n, &value, error);
    if (rc)
        return rc;
    if ((*out = calloc(1, (size_t)part->n + 1)))
        memcpy(*out, value.data, (size_t)value.length);
    else
        rc = LEAT_E_NOMEM;
    leat_value_clear(&value);
    return rc;
}

int cli_sequence_read(const struct cli_sequences *s, size_t i, struct cli_sequence *out, struct leat_error *error)
{
    int rc = LEAT_OK;
    struct leat_error why = {0};
    cli_sequence_plan(s, i, out);
    read_text(s, i, s->names, out->name, sizeof out->name);
    read_text(s, i, s->descriptions, out->description, sizeof out->description);
    for (size_t p = 0; p < out->n_parts && !rc; p++) {
        struct cli_part *part = &out->parts[p];
        rc = read_part(s, i, s->field, part, &part->residues, &why);
        if (!rc && s->qualities >= 0)
            rc = read_part(s, i, (size_t)s->qualities, part, &part->qualities, &why);
    }
    if (!rc)
        return LEAT_OK;
    cli_sequence_clear(out);
    out->n_parts = 0;
    if (rc == LEAT_E_NOMEM) {
        *error = (struct leat_error){.code = rc};
        snprintf(error->message, sizeof error->message, "no memory for a sequence");
        return rc;
    }
    snprintf(out->error, sizeof out->error, "%.599s", why.message);
    return LEAT_OK;
}

void cli_sequence_clear(struct cli_sequence *sequence)
{
    for (size_t p = 0; p < 2; p++) {
        free(sequence->parts[p].residues);
        free(sequence->parts[p].qualities);
        sequence->parts[p].residues = sequence->parts[p].qualities = NULL;
    }
}

const char *cli_sequence_left_out(const struct cli_sequence *sequence, size_t part, char out[120])
{
    const struct cli_part *at = &sequence->parts[part];
    const uint64_t end = at->begin + at->n, next = part + 1 < sequence->n_parts ? at[1].begin : sequence->length;
    char count[32];
    out[0] = 0;
    if (!at->n && at->begin)
        snprintf(out, 120, "... ends before residue %s", cli_count(at->begin, count));
    else if (end < next)
        snprintf(out, 120, "... %s residues%s", cli_count(next - end, count),
                 part + 1 < sequence->n_parts ? " ..." : " more");
    return out;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* A letter as it is safe to print. */
static char shown(uint8_t byte)
{
    return byte >= '!' && byte <= '~' ? (char)byte : '?';
}

/* Black on the colour of the class; lower case has the colour itself. */
static void print_residues(const struct cli_sequences *s, const uint8_t *at, size_t n, bool colour)
{
    unsigned before = 0;
    for (size_t i = 0; i < n; i++) {
        const bool lower = at[i] >= 'a' && at[i] <= 'z', gap = i && i % CLI_GROUP == 0;
        const unsigned now = cli_residue_class(s->alphabet, at[i])->terminal | (lower ? 256 : 0);
        if (colour && before && (gap || now != before)) {
            fputs("\033[0m", stdout);
            before = 0;
        }
        if (gap)
            putchar(' ');
        if (colour && !before)
            printf(lower ? "\033[38;5;%um" : "\033[30;48;5;%um", now & 255);
        before = colour ? now : 0;
        putchar(shown(at[i]));
    }
    puts(colour ? "\033[0m" : "");
}

/* The better, the lighter: from black on, 40 and above is white. */
static void print_qualities(const uint8_t *at, size_t n, bool colour)
{
    for (size_t i = 0; i < n; i++) {
        const int q = at[i] > '!' ? at[i] - '!' : 0, shade = q < BEST ? q * (SHADES - 1) / BEST : SHADES - 1;
        if (i && i % CLI_GROUP == 0)
            putchar(' ');
        if (colour)
            printf("\033[%u;48;5;%um%c\033[0m", shade < SHADES / 2 ? 97u : 30u, (unsigned)(FIRST_SHADE + shade),
                   shown(at[i]));
        else
            putchar(shown(at[i]));
    }
    putchar('\n');
}

static void print_sequence(const struct cli_sequences *s, size_t i, const struct cli_sequence *one, bool colour)
{
    char text[120], count[32];
    const char *bold = colour ? "\033[1m" : "", *dim = colour ? "\033[90m" : "", *plain = colour ? "\033[0m" : "";
    printf("sample %" PRId64 ": %s%s%s%s%s residues\n", s->positions[i], bold, one->name, plain,
           one->name[0] ? ", " : "", cli_count(one->length, count));
    if (one->description[0])
        printf("%s%s%s\n", dim, one->description, plain);
    if (one->error[0])
        printf("broken: %s\n", one->error);
    for (size_t p = 0; p < one->n_parts; p++) {
        const struct cli_part *part = &one->parts[p];
        for (uint64_t k = 0; k < part->n; k += CLI_LINE) {
            const size_t n = part->n - k < CLI_LINE ? (size_t)(part->n - k) : CLI_LINE;
            printf("%s%*s%s  ", dim, NUMBER, cli_count(part->begin + k, count), plain);
            print_residues(s, part->residues + k, n, colour);
            if (part->qualities) {
                printf("%*s  ", NUMBER, "");
                print_qualities(part->qualities + k, n, colour);
            }
        }
        if (cli_sequence_left_out(one, p, text)[0])
            printf("%*s  %s%s%s\n", NUMBER, "", dim, text, plain);
    }
}

int cli_sequences_print(const struct cli_sequences *s, struct leat_error *error)
{
    const char *no_colour = getenv("NO_COLOR");
    const bool colour = isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]);
    struct cli_sequence one;
    for (size_t i = 0; i < s->n; i++) {
        const int rc = cli_sequence_read(s, i, &one, error);
        if (rc)
            return rc;
        if (i)
            putchar('\n');
        print_sequence(s, i, &one, colour);
        cli_sequence_clear(&one);
    }
    return LEAT_OK;
}
