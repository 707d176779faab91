/*
 * leat prompts: the options are checked here. Tokenizers and chat templates are those of Python, so the Python package
 * does the work.
 */
#include "commands.h"
#include "python.h"

struct prompts {
    struct cli_several paths;
    const char *text;
    uint64_t number;
    bool flag;
};

/* All are handed over as they were typed. */
static const struct cli_option options[] = {
    {"out", "FILE", "the file to write: SRC's lines in the order of the groups", CLI_TEXT,
     .at = offsetof(struct prompts, text), .is_written = true},
    {"tokenizer", "PATH", "tokenizer.json, a folder with one, or a tiktoken file; without it,\nbytes are tokens",
     CLI_TEXT, .at = offsetof(struct prompts, text)},
    {"pattern", "NAME", "of a tiktoken file: cl100k_base, o200k_base or a regular expression", CLI_TEXT,
     .at = offsetof(struct prompts, text), .needs = "tokenizer"},
    {"template", "PATH",
     "the chat template that makes texts of messages; without it, their\nroles and contents are joined", CLI_TEXT,
     .at = offsetof(struct prompts, text)},
    {"field", "NAME",
     "what the prompt is: a text, tokens or messages; default: the first of\n"
     "body.messages, body.prompt, body.input, messages, prompt, text; of a\npack: tokens",
     CLI_TEXT, .at = offsetof(struct prompts, text)},
    {"decode", "NAME", "about how many tokens the answer has, such as body.max_tokens: groups\nthen stand by it",
     CLI_TEXT, .at = offsetof(struct prompts, text)},
    {"block", "N", "prefixes have a multiple of so many tokens; default: 1, with --simulate\nits block", CLI_U64,
     .at = offsetof(struct prompts, number), 1, 1 << 30},
    {"seed", "N", "draws the order of prompts that share no token; default: 0, sorted", CLI_U64,
     .at = offsetof(struct prompts, number), 0, INT64_MAX},
    {"simulate", "CACHE",
     "what a prefix cache would save: lru=4GB,block=16,kv=128KiB (bytes of the\nkeys and values of a token)", CLI_TEXT,
     .at = offsetof(struct prompts, text)},
    {"restore", NULL, "write the results in RESULTS in the order of SRC", CLI_SET,
     .at = offsetof(struct prompts, flag)},
    {"resume", NULL, "write the prompts that have no result in RESULTS yet", CLI_SET,
     .at = offsetof(struct prompts, flag)},
    {"plan", "FILE", "what the engine was given: where results have no custom_id, line i is\nthat of its line i",
     CLI_TEXT, .at = offsetof(struct prompts, text)},
    {"overwrite", NULL, "replace FILE, should it exist", CLI_SET, .at = offsetof(struct prompts, flag)},
    {"quiet", NULL, "print no progress, and no summary", CLI_SET, .at = offsetof(struct prompts, flag)},
};

static int run(const struct cli_command *command, int argc, char **argv)
{
    struct prompts prompts;
    int exit_code;
    if (!cli_parse(command, argc, argv, &prompts, &exit_code))
        return exit_code;
    return cli_become_python(command, &prompts, "src", &prompts.paths, NULL, NULL);
}

const struct cli_command cli_prompts = {
    .name = "prompts",
    .usage = "SRC [RESULTS...] [options]",
    .summary = "order prompts by what they share; give results their order back",
    .about =
        "Writes the lines of SRC, unchanged, so that prompts that share a prefix follow each other: an engine with a\n"
        "cache of prefixes, such as vLLM or SGLang, then computes it once. SRC is a file of JSON lines, such as a "
        "batch\n"
        "file of OpenAI's form, a .csv with a header, or a pack with tokens, whose samples become JSON lines, or a "
        "pack\n"
        "again. Results come back in the order of SRC with --restore, by their custom_id, or by line with --plan.\n",
    .arguments = {{"SRC", offsetof(struct prompts, paths)}},
    .several = true,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .more = "Examples:\n"
            "  leat prompts batch.jsonl --tokenizer llama/ --template llama/ --out plan.jsonl\n"
            "  leat prompts batch.jsonl --tokenizer llama/ --simulate lru=4GB,block=16\n"
            "  leat prompts batch.jsonl results.jsonl --restore --out restored.jsonl\n"
            "  leat prompts batch.jsonl results.jsonl --resume --plan plan.jsonl --out rest.jsonl\n"
            "\nExit codes: 0 done; 1 a record is broken, or a result missing or there twice; 2 could not run.\n",
    .run = run,
};
