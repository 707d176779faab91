/* The kinds of residues: residues.h. */
#include "residues.h"

#include <ctype.h>
#include <string.h>

enum { PROBES = 16, PROBE = 4096 };

bool cli_is_residue(uint8_t byte)
{
    const int lower = byte | 32;
    return (lower >= 'a' && lower <= 'z') || byte == '*' || byte == '-' || byte == '.';
}

static bool is_varying(const struct leat_field *field)
{
    return field->kind == LEAT_KIND_ARRAY && field->dtype == LEAT_U8 && field->ndim == 1 && field->shape[0] < 0 &&
           !field->role && !(field->flags & LEAT_FIELD_DERIVED) && strncmp(field->name, "tokens", 6) != 0;
}

static bool has_residues(const struct leat_dataset *dataset)
{
    size_t n;
    leat_dataset_fields(dataset, &n);
    for (size_t i = 0; i < n; i++)
        if (cli_letters_of(dataset, i, NULL) == CLI_RESIDUES)
            return true;
    return false;
}

enum cli_letters cli_letters_of(const struct leat_dataset *dataset, size_t number, uint64_t counts[256])
{
    size_t n;
    uint64_t own[256] = {0}, seen = 0;
    const uint64_t count = leat_dataset_count(dataset), probes = count < PROBES ? count : PROBES;
    const struct leat_field *field = &leat_dataset_fields(dataset, &n)[number];
    if (!is_varying(field))
        return CLI_NO_LETTERS;
    const bool quality = !strcmp(field->name, "quality");
    for (uint64_t i = 0; i < probes; i++) {
        struct leat_value value;
        if (leat_dataset_read_part(dataset, i * (count / probes), number, 0, PROBE, &value, NULL))
            continue;
        for (uint64_t k = 0; k < value.length; k++)
            own[((const uint8_t *)value.data)[k]]++;
        seen += value.length;
        leat_value_clear(&value);
    }
    for (unsigned b = 0; b < 256; b++)
        if (own[b] && !(quality ? b >= '!' && b <= '~' : cli_is_residue((uint8_t)b)))
            return CLI_NO_LETTERS;
    if ((!seen && strcmp(field->name, "sequence") != 0) || (quality && !has_residues(dataset)))
        return CLI_NO_LETTERS;
    if (counts)
        memcpy(counts, own, sizeof own);
    return quality ? CLI_QUALITIES : CLI_RESIDUES;
}

enum cli_alphabet cli_alphabet_of(const uint64_t counts[256])
{
    uint64_t letters = 0, bases = 0;
    for (int b = 0; b < 256; b++)
        if (b < 128 && isalpha(b)) {
            letters += counts[b];
            bases += strchr("ACGTUN", toupper(b)) ? counts[b] : 0;
        }
    return letters && (double)bases >= 0.85 * (double)letters ? CLI_NUCLEOTIDES : CLI_AMINO_ACIDS;
}

const struct cli_residue_class *cli_residue_class_at(enum cli_alphabet alphabet, unsigned n)
{
    static const struct cli_residue_class classes[][CLI_RESIDUE_CLASSES] = {
        [CLI_NUCLEOTIDES] = {{"A", "A", 0x7fd67a, 114},
                             {"C", "C", 0xffc067, 215},
                             {"G", "G", 0xf0766f, 203},
                             {"T, U", "TU", 0x74aef0, 75},
                             [CLI_OTHER_RESIDUES] = {"others", "N...", 0xdfe1e4, 252}},
        [CLI_AMINO_ACIDS] = {{"aliphatic", "AILMV", 0xffb8b8, 217},
                             {"aromatic", "FWY", 0xffc44d, 215},
                             {"positive", "HKR", 0x8f9dff, 105},
                             {"negative", "DE", 0xf0605a, 203},
                             {"hydrophilic", "NQST", 0x7fd67a, 114},
                             {"bends the chain", "GP", 0xec8fec, 177},
                             {"cysteine", "C", 0xf5ee55, 227},
                             [CLI_OTHER_RESIDUES] = {"others", "X...", 0xdfe1e4, 252}}};
    return &classes[alphabet][n];
}

const struct cli_residue_class *cli_residue_class(enum cli_alphabet alphabet, uint8_t byte)
{
    unsigned n = 0;
    for (; n < CLI_OTHER_RESIDUES; n++) {
        const struct cli_residue_class *one = cli_residue_class_at(alphabet, n);
        if (byte && byte < 128 && one->letters && strchr(one->letters, toupper(byte)))
            break;
    }
    return cli_residue_class_at(alphabet, n);
}
