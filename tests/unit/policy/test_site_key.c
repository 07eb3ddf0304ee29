/* Call sites as text and call sites as addresses of a run have the same keys. */
#include "policy/site_key.h"

#include "tests/test.h"

struct frame {
    const char *path; /* NULL: no module */
    uint64_t offset;
};

static struct gm_site_keys keys_of(const struct frame *frames, size_t count) {
    struct gm_site_keys keys;
    gm_site_keys_begin(&keys);
    for (size_t i = 0; i < count; i++)
        gm_site_keys_add(
            &keys, frames[i].path ? gm_site_module_key(frames[i].path, strlen(frames[i].path)) : GM_SITE_NO_MODULE,
            frames[i].offset);
    return keys;
}

static void text_of(const struct frame *frames, size_t count, char *out, size_t size) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (i)
            out[used++] = '<';
        used += gm_site_frame_text(out + used, size - used, frames[i].path, frames[i].path ? strlen(frames[i].path) : 0,
                                   frames[i].offset);
    }
}

TEST(text_is_the_same_key) {
    static const struct frame chains[][3] = {
        {{"/usr/lib/libfoo.so.1", 0x12a0}, {"/home/me/app", 0x40f2}, {"/home/me/app", 0}},
        {{"app", UINT64_MAX}, {NULL, 0x1234}, {"/x/with blank#and<more>,%;.so", 1}},
        {{NULL, 1}, {"/x/\xc3\xa4pp", 0x10}, {"/x/a-b_c+d@e:f=g~h", 0xabcdef}},
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        for (size_t count = 1; count <= 3; count++) {
            char text[4096];
            struct gm_site_keys parsed, keys = keys_of(chains[i], count);
            text_of(chains[i], count, text, sizeof text);
            assert_null(strpbrk(text, " \t\n#,;>"));
            assert_true(gm_site_keys_parse(text, strlen(text), &parsed));
            assert_memory_equal(&parsed, &keys, sizeof keys);
        }
}

TEST(folders_do_not_count) {
    static const struct frame here = {"/opt/a/libfoo.so", 64}, there = {"/home/b/libfoo.so", 64},
                              replaced = {"/x/libfoo.so (deleted)", 64};
    assert_true(keys_of(&here, 1).chain == keys_of(&there, 1).chain);
    assert_true(keys_of(&here, 1).chain == keys_of(&replaced, 1).chain);
}

TEST(others_differ) {
    static const struct frame frames[] = {{"libfoo.so", 64}, {"libfoo.so", 65}, {"libfop.so", 64}, {NULL, 64}};
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(keys_of(&frames[i], 1).chain != keys_of(&frames[j], 1).chain);
    assert_true(keys_of(frames, 2).chain != keys_of(frames, 1).chain);
    const struct frame turned[] = {frames[1], frames[0]};
    assert_true(keys_of(frames, 2).chain != keys_of(turned, 2).chain);
    assert_true(keys_of(NULL, 0).chain == 0);
}

TEST(an_unknown_module_has_no_offsets) {
    static const struct frame one = {NULL, 1}, other = {NULL, 99};
    assert_true(keys_of(&one, 1).chain == keys_of(&other, 1).chain);
}

TEST(long_chains_end) {
    struct frame frames[GM_SITE_KEY_FRAMES + 1];
    char text[8192];
    struct gm_site_keys keys;
    for (size_t i = 0; i <= GM_SITE_KEY_FRAMES; i++)
        frames[i] = (struct frame){"app", i};
    assert_int_equal(keys_of(frames, GM_SITE_KEY_FRAMES + 1).count, GM_SITE_KEY_FRAMES);
    text_of(frames, GM_SITE_KEY_FRAMES, text, sizeof text);
    assert_true(gm_site_keys_parse(text, strlen(text), &keys));
    text_of(frames, GM_SITE_KEY_FRAMES + 1, text, sizeof text);
    assert_false(gm_site_keys_parse(text, strlen(text), &keys));
}

TEST(wrong_texts_are_refused) {
    static const char *const wrong[] = {
        "",         "app",     "app+",    "app+0x",   "app+0xg", "+0x1",       "app+1",   "app+0x1<",
        "<app+0x1", "a b+0x1", "a%2+0x1", "a%zz+0x1", "??",      "app+0x1<?<", "a#b+0x1", "app+0x12345678901234567"};
    struct gm_site_keys keys;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(gm_site_keys_parse(wrong[i], strlen(wrong[i]), &keys));
}

TEST(text_is_cut_to_its_room) {
    char out[8];
    assert_int_equal(gm_site_frame_text(out, sizeof out, "/lib/libverylong.so", 19, 0x1234), 7);
    assert_string_equal(out, "libvery");
}

TEST(the_c_library_is_known) {
    static const char *const yes[] = {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc-2.17.so", "libpthread-2.17.so",
                                      "/lib64/ld-linux-x86-64.so.2"};
    static const char *const no[] = {"/usr/lib/libcudart.so.13", "/usr/lib/libcaffe.so", "/home/libc.so.6/app"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(gm_site_is_c_library(yes[i], strlen(yes[i])));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(gm_site_is_c_library(no[i], strlen(no[i])));
}

int main(void) { return run_all(NULL, NULL); }
