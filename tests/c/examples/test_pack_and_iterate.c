/* Runs the example on a folder made here. argv[1] is its executable. */
#include "../photos.h"

static const char *example;

static int run_example(const char *source, char *last, size_t room)
{
    char command[1024];
    snprintf(command, sizeof command, "%s %s/%s %s/photos.leat 2>&1", example, photos_root, source, photos_root);
    return run_command(command, last, room);
}

TEST(the_example_packs_a_folder_and_takes_every_sample_once)
{
    char last[512];
    const int code = run_example("photos", last, sizeof last);
    assert_string_equal(last, "20 of 20 samples\n");
    assert_int_equal(code, 0);
}

TEST(the_example_names_a_folder_that_is_not_there)
{
    char last[512];
    assert_int_equal(run_example("nothing", last, sizeof last), 1);
    assert_non_null(strstr(last, "nothing"));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    example = argv[1];
    return test_run(photos_setup, photos_teardown);
}
