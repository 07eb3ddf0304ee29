/* Names of traces that lead over links, and what other users put under them in a folder that all can write. All users
 * and files are this test's own. */
#include "writer_world.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USER = 65534, OTHER = 65533 };

static char name[512], victim[512]; /* of the trace; a file of the user's that nobody else may write */

static const char *in_folder(const char *sub) {
    static char text[4][512];
    static unsigned next;
    char *out = text[next++ % 4];
    snprintf(out, sizeof text[0], "%s/%s", folder, sub);
    return out;
}

static void write_three(void) {
    if (!geteuid() && (setgroups(0, NULL) || setresgid(USER, USER, USER) || setresuid(USER, USER, USER)))
        _exit(3);
    gm_trace_setup(name, AUTO, 0, "auto", "1");
    write_events(0x1000, 3);
    gm_trace_finish();
}

static void assert_refused(const char *why) { assert_int_equal(log_lines(write_three, why), 1); }

static void assert_written(const char *file) {
    assert_int_equal(in_child(write_three), 0);
    assert_int_equal(read_back(file, NULL, NULL), 3);
}

static void remove_all(void) {
    static const char *const names[] = {"all/t.gmt", "all/in", "own/t.gmt", "own/victim.gmt", "own/in", "log", "t.gmt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    rmdir(in_folder("all"));
    rmdir(in_folder("own"));
}

/* A folder that all can write, and one of the user's. */
static int make_folders(void **state) {
    remove_all();
    snprintf(name, sizeof name, "%s", in_folder("all/t.gmt"));
    snprintf(victim, sizeof victim, "%s", in_folder("own/victim.gmt"));
    return chmod(folder, 0755) || mkdir(in_folder("all"), 0700) || chmod(in_folder("all"), 01777) ||
           mkdir(in_folder("own"), 0755) || (!geteuid() && chown(in_folder("own"), USER, USER));
}

static int remove_folders(void **state) {
    remove_all();
    return 0;
}

#define TEST_HERE(name) TEST_WITH(name, make_folders, remove_folders)
/* Only root can make files of two users. */
#define TEST_OF_USERS(name)                                              \
    static void name##_of_users(void);                                   \
    TEST_HERE(name) {                                                    \
        if (geteuid()) {                                                 \
            print_message("skipped: needs root, for two other users\n"); \
            skip();                                                      \
        }                                                                \
        name##_of_users();                                               \
    }                                                                    \
    static void name##_of_users(void)

static void make_link(const char *to, const char *from, uid_t owner) {
    unlink(from);
    assert_int_equal(symlink(to, from), 0);
    assert_int_equal(lchown(from, owner, owner), 0);
}

static void make_file(const char *path, uid_t owner, mode_t mode) {
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchown(fd, owner, owner) || fchmod(fd, mode), 0);
    close(fd);
}

TEST_OF_USERS(a_link_of_another_user_creates_nothing) {
    make_link(victim, name, OTHER);
    assert_refused("a link of another user");
    assert_int_equal(file_size(victim), -1);
}

TEST_OF_USERS(a_link_of_another_user_replaces_no_trace) {
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    snprintf(name, sizeof name, "%s", victim);
    assert_written(victim);
    off_t size = file_size(victim);
    assert_int_equal(utimensat(AT_FDCWD, victim, old, 0), 0);
    snprintf(name, sizeof name, "%s", in_folder("all/t.gmt"));
    make_link(victim, name, OTHER);
    assert_refused("a link of another user");
    assert_int_equal(file_size(victim), size);
    unlink(name);
    assert_int_equal(link(victim, name), 0);
    assert_refused("second name");
    assert_int_equal(file_size(victim), size);
}

TEST_OF_USERS(a_link_of_another_user_on_the_way_is_not_followed) {
    make_link(in_folder("own"), in_folder("all/in"), OTHER);
    snprintf(name, sizeof name, "%s", in_folder("all/in/t.gmt"));
    assert_refused("a link of another user");
    assert_int_equal(file_size(in_folder("own/t.gmt")), -1);
}

TEST_OF_USERS(a_file_of_another_user_gets_no_trace) {
    make_file(name, OTHER, 0666);
    assert_refused("belongs to another user");
    assert_int_equal(file_size(name), 0);
    unlink(name);
    assert_int_equal(mkfifo(name, 0666) || chown(name, OTHER, OTHER), 0);
    assert_refused("belongs to another user");
}

TEST_OF_USERS(links_of_the_user_and_of_root_are_followed_everywhere) {
    static const uid_t owners[] = {USER, 0};
    for (int i = 0; i < 2; i++) {
        make_link(victim, name, owners[i]);
        assert_written(victim);
        unlink(victim);
    }
    make_link(in_folder("own"), in_folder("all/in"), USER);
    snprintf(name, sizeof name, "%s", in_folder("all/in/t.gmt"));
    assert_written(in_folder("own/t.gmt"));
}

TEST_OF_USERS(a_file_of_the_user_is_taken_everywhere) {
    make_file(name, USER, 0600);
    assert_written(name);
}

/* As ever in a folder of the user's own. */
TEST_HERE(links_in_an_own_folder_are_followed) {
    assert_int_equal(symlink("victim.gmt", in_folder("own/t.gmt")), 0);
    assert_int_equal(symlink("../own", in_folder("own/in")), 0);
    snprintf(name, sizeof name, "%s", in_folder("own/in/../own//in/t.gmt"));
    assert_written(victim);
}

TEST_HERE(a_relative_name_starts_in_the_folder_of_the_program) {
    char before[512];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(in_folder("own")), 0);
    snprintf(name, sizeof name, "victim.gmt");
    assert_int_equal(in_child(write_three), 0);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(read_back(victim, NULL, NULL), 3);
}

TEST_HERE(names_that_lead_nowhere_are_refused) {
    static const struct {
        const char *name, *why;
    } rows[] = {{"own", "is a directory"}, {"own/t.gmt", "too many symbolic links"}, {"own/in/t.gmt", "no such file"}};
    assert_int_equal(symlink("t.gmt", in_folder("own/t.gmt")), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(name, sizeof name, "%s", in_folder(rows[i].name));
        assert_refused(rows[i].why);
    }
}

int main(void) { return run_all(make_folder, remove_folder); }
