/* Sequences of residues to look at: printed, or drawn as a sheet. A long one is shown by its beginning and its end. */
#ifndef LEAT_CLI_VIEW_SEQUENCES_H
#define LEAT_CLI_VIEW_SEQUENCES_H

#include "args.h"
#include "residues.h"

#define CLI_LINE 60  /* residues of a line, */
#define CLI_GROUP 10 /* in groups of so many */

struct cli_sequences {
    const struct leat_dataset *chosen; /* the samples that are shown */
    const int64_t *positions;          /* their numbers */
    const char *title;
    size_t field, n;
    int names, descriptions, qualities; /* fields, or -1 */
    enum cli_alphabet alphabet;
    uint64_t begin, most;    /* first residue and number of those shown of each; begin UINT64_MAX: both ends */
    struct leat_value value; /* internal: the lengths */
};

/* Part of a sequence: the residues [begin, begin + n). */
struct cli_part {
    uint64_t begin, n;
    uint8_t *residues, *qualities; /* NULL: there are none */
};

struct cli_sequence {
    char name[200], description[400]; /* safe to print */
    uint64_t length;
    struct cli_part parts[2]; /* what is left out lies between them, or behind the last */
    size_t n_parts;
    char error[600]; /* why it cannot be read, or "" */
};

/* Finds the field of residues: `named`, or the first one. False: there is none. */
bool cli_sequences_find(const struct leat_dataset *dataset, const char *named, struct cli_sequences *out);
/* The lengths of the chosen samples, before anything is shown. */
int cli_sequences_begin(struct cli_sequences *sequences, struct leat_error *error);
void cli_sequences_clear(struct cli_sequences *sequences);

/* The parts of a sequence that are shown, without their residues. Needs no reading. */
void cli_sequence_plan(const struct cli_sequences *sequences, size_t i, struct cli_sequence *out);
/* The same with names and residues. A broken one has an error; only NOMEM is a failure. */
int cli_sequence_read(const struct cli_sequences *sequences, size_t i, struct cli_sequence *out,
                      struct leat_error *error);
void cli_sequence_clear(struct cli_sequence *sequence);
/* Writes "... 300 residues ...", as many as are left out behind a part, or "". Returns `out`. */
const char *cli_sequence_left_out(const struct cli_sequence *sequence, size_t part, char out[120]);

/* Prints them, in colours if standard output is a terminal and NO_COLOR is not set. */
int cli_sequences_print(const struct cli_sequences *sequences, struct leat_error *error);
/* Draws them and writes a PNG; *width and *height are its size. False after a message. */
bool cli_sequences_draw(const struct cli_command *command, const struct cli_sequences *sequences, const char *note,
                        const char *path, int *width, int *height);

#endif
