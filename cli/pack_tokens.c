/*
 * leat pack --tokenizer: the options are checked here, and the work is done by leat.tokenize of the Python package,
 * where tokenizers are.
 */
#include <stdio.h>

#include "pack.h"
#include "print.h"
#include "python.h"

/* An option that says nothing about tokens was given. */
static const char *foreign(const struct cli_pack *pack)
{
    const struct leat_writer_options *o = &pack->options;
    if (o->max_side)
        return "--max-side";
    if (o->photos)
        return "--photos";
    if (o->lenient)
        return "--lenient";
    if (pack->opening.coco || pack->opening.yolo || pack->opening.voc || pack->opening.masks)
        return "annotations";
    return NULL;
}

int cli_pack_tokens(struct cli_pack *pack)
{
    char shard_bytes[32];
    const struct leat_writer_options *o = &pack->options;
    const char *other = foreign(pack);
    if (other)
        return cli_usage_error(pack->command, "--tokenizer makes tokens of text, and %s %s about photos.", other,
                               other[0] == '-' ? "is" : "are");
    snprintf(shard_bytes, sizeof shard_bytes, "%llu", (unsigned long long)o->shard_bytes);
    const char *const pairs[][2] = {
        {"dst", pack->dst},
        {"tokenizer", pack->tokenizer},
        {"text", pack->text},
        {"tokens", pack->tokens},
        {"chat", pack->chat},
        {"template", pack->template},
        {"learn", pack->learn},
        {"turns", pack->turns ? "last" : NULL},
        {"tools", pack->tools},
        {"prompt", pack->prompt},
        {"date", pack->date},
        {"variables", pack->variables},
        {"fields", pack->kept},
        {"pattern", pack->pattern},
        {"special_tokens", pack->add_special ? "yes" : NULL},
        {"skip", o->on_bad == LEAT_BAD_SKIP ? "yes" : NULL},
        {"on_bad", (const char *const[]){NULL, "skip", "raise"}[pack->opening.on_bad]},
        {"shard_bytes", o->shard_bytes ? shard_bytes : NULL},
        {"metadata", o->metadata},
        {"overwrite", o->overwrite ? "yes" : NULL},
        {"resume", o->resume ? "yes" : NULL},
        {"quiet", pack->quiet ? "yes" : NULL},
        {"where", pack->opening.where},
    };
    return cli_become_python_with(pack->command, "src", &pack->sources, pairs, sizeof pairs / sizeof *pairs);
}
