#include "../files.h"
#include "../test.h"
#include "base/cpu.h"

static char folder[PATH_MAX], lines[1000]; /* of the log; what was read of it last */

static void empty_log(void)
{
    files_write_text(folder, "log", "");
}

static void read_log(void)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    lines[fread(lines, 1, sizeof lines - 1, file)] = 0;
    fclose(file);
}

/* Asks for `wish` where the processor has `best`. */
static enum leat_isa wish_for(const char *wish, enum leat_isa best)
{
    empty_log();
    const enum leat_isa isa = leat_cpu_isa_wished(best, wish);
    read_log();
    return isa;
}

TEST(a_set_that_the_processor_has_is_taken_without_a_word)
{
    const struct {
        const char *wish;
        enum leat_isa best, taken;
    } cases[] = {{NULL, LEAT_ISA_AVX512, LEAT_ISA_AVX512},         {"", LEAT_ISA_AVX2, LEAT_ISA_AVX2},
                 {"avx512", LEAT_ISA_AVX512, LEAT_ISA_AVX512},     {"avx2", LEAT_ISA_AVX512, LEAT_ISA_AVX2},
                 {"portable", LEAT_ISA_AVX512, LEAT_ISA_PORTABLE}, {"portable", LEAT_ISA_PORTABLE, LEAT_ISA_PORTABLE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(wish_for(cases[i].wish, cases[i].best), cases[i].taken);
        assert_string_equal(lines, "");
    }
}

TEST(a_set_that_the_processor_lacks_is_said_in_the_log)
{
    assert_int_equal(wish_for("avx512", LEAT_ISA_AVX2), LEAT_ISA_AVX2);
    assert_non_null(strstr(lines, "warning: LEAT_ISA=avx512: this processor has no such instructions; avx2 is used\n"));
    assert_int_equal(wish_for("avx2", LEAT_ISA_PORTABLE), LEAT_ISA_PORTABLE);
    assert_non_null(
        strstr(lines, "warning: LEAT_ISA=avx2: this processor has no such instructions; portable is used\n"));
}

TEST(an_unknown_set_is_said_in_the_log_with_those_that_are_known)
{
    assert_int_equal(wish_for("AVX2", LEAT_ISA_AVX512), LEAT_ISA_AVX512);
    assert_non_null(
        strstr(lines, "warning: LEAT_ISA=AVX2 is not known: it is portable, avx2 or avx512; avx512 is used\n"));
}

TEST(the_set_of_the_environment_is_looked_at_once)
{
    empty_log();
    setenv("LEAT_ISA", "sse9", 1);
    const enum leat_isa isa = leat_cpu_isa();
    setenv("LEAT_ISA", "portable", 1);
    assert_int_equal(leat_cpu_isa(), isa);
    read_log();
    const char *first = strstr(lines, "LEAT_ISA=sse9 is not known");
    assert_non_null(first);
    assert_null(strstr(first + 1, "LEAT_ISA"));
}

int main(void)
{
    char path[PATH_MAX + 8];
    files_folder(folder);
    snprintf(path, sizeof path, "%s/log", folder);
    setenv("LEAT_LOG", "warning", 1);
    setenv("LEAT_LOG_FILE", path, 1);
    const int failed = test_run(NULL, NULL);
    files_remove(folder);
    return failed;
}
