/* Finds symbols by walking the loader's list of objects and the hash tables of their dynamic sections (real_dl.h).
 *
 * The first look-up of a process may come from a sanitizer that is still looking for its own functions. So this file
 * must not call a string function, or dl_iterate_phdr, that somebody may intercept. The pragma keeps the compiler from
 * turning loops into such calls. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "shim/base/real_dl.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>

#include "shim/base/base.h"

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash;
    const ElfW(Word) * hash;
};

/* On most architectures glibc relocates the pointers of the dynamic section in place, but not for the vdso. */
static const void *loaded_at(ElfW(Addr) base, ElfW(Addr) pointer) {
    return (const void *)(pointer < base ? base + pointer : pointer);
}

static bool same(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool begins(const char *text, const char *with) {
    while (*with && *text == *with)
        text++, with++;
    return !*with;
}

static const char *file_of(const char *path) {
    const char *file = path;
    for (; *path; path++)
        if (*path == '/')
            file = path + 1;
    return file;
}

static bool read_dynamic(ElfW(Addr) base, const ElfW(Dyn) * entry, struct dynamic *out) {
    *out = (struct dynamic){0};
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *at = loaded_at(base, entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_SYMTAB: out->symbols = at; break;
        case DT_STRTAB: out->strings = at; break;
        case DT_VERSYM: out->versions = at; break;
        case DT_GNU_HASH: out->gnu_hash = at; break;
        case DT_HASH: out->hash = at; break;
        }
    }
    return out->symbols && out->strings && (out->gnu_hash || out->hash);
}

/* A default version (not hidden) is preferred to an old one that exists for compatibility. */
static bool consider(const struct dynamic *dynamic, uint32_t index, const char *name, ElfW(Addr) base, void **found) {
    const ElfW(Sym) *symbol = &dynamic->symbols[index];
    if (symbol->st_shndx == SHN_UNDEF || !same(dynamic->strings + symbol->st_name, name))
        return false;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        return false;
    *found = (void *)(base + symbol->st_value);
    return !dynamic->versions || !(dynamic->versions[index] & 0x8000);
}

static void *find_gnu(const struct dynamic *dynamic, const char *name, ElfW(Addr) base) {
    const uint32_t *table = dynamic->gnu_hash;
    uint32_t bucket_count = table[0], first = table[1], bloom_words = table[2];
    const uint32_t *buckets = (const uint32_t *)((const ElfW(Addr) *)(table + 4) + bloom_words);
    const uint32_t *chain = buckets + bucket_count;
    uint32_t hash = 5381;
    void *found = NULL;

    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    if (bucket_count == 0)
        return NULL;
    uint32_t index = buckets[hash % bucket_count];
    if (index < first)
        return NULL;
    for (;; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1) && consider(dynamic, index, name, base, &found))
            return found;
        if (entry & 1)
            return found;
    }
}

static void *find_sysv(const struct dynamic *dynamic, const char *name, ElfW(Addr) base) {
    void *found = NULL;
    for (uint32_t index = 1; index < dynamic->hash[1]; index++)
        if (consider(dynamic, index, name, base, &found))
            return found;
    return found;
}

void *gm_elf_symbol_of(const struct link_map *map, const char *symbol) {
    struct dynamic dynamic;
    if (!read_dynamic(map->l_addr, map->l_ld, &dynamic))
        return NULL;
    return dynamic.gnu_hash ? find_gnu(&dynamic, symbol, map->l_addr) : find_sysv(&dynamic, symbol, map->l_addr);
}

/* The C library's objects are early in the list of loaded objects and are never unloaded. */
void *gm_elf_symbol(const char *soname, const char *symbol) {
    for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next)
        if (map->l_name && map->l_ld && begins(file_of(map->l_name), soname))
            return gm_elf_symbol_of(map, symbol);
    return NULL;
}

static void *from_libc(const char *symbol, const char *older_library) {
    void *address = gm_elf_symbol("libc.so", symbol);
    return address ? address : gm_elf_symbol(older_library, symbol);
}

/* Several threads at once find the same address, so no lock is needed. */
#define LIBC_FUNCTION(symbol, older_library)                     \
    static void *cached;                                         \
    void *function = __atomic_load_n(&cached, __ATOMIC_ACQUIRE); \
    if (GM_UNLIKELY(!function)) {                                \
        function = from_libc(symbol, older_library);             \
        __atomic_store_n(&cached, function, __ATOMIC_RELEASE);   \
    }

void *gm_real_dlsym(void *handle, const char *name) {
    LIBC_FUNCTION("dlsym", "libdl.so");
    return function ? ((void *(*)(void *, const char *))function)(handle, name) : NULL;
}

void *gm_real_dlopen(const char *file, int mode) {
    LIBC_FUNCTION("dlopen", "libdl.so");
    return function ? ((void *(*)(const char *, int))function)(file, mode) : NULL;
}

/* A sanitizer or profiler that interposes the thread functions has to see every thread. RTLD_DEFAULT finds its
 * functions first. */
static void *thread_create, *thread_detach;

void gm_thread_find(void) {
    __atomic_store_n(&thread_detach, gm_real_dlsym(RTLD_DEFAULT, "pthread_detach"), __ATOMIC_RELEASE);
    __atomic_store_n(&thread_create, gm_real_dlsym(RTLD_DEFAULT, "pthread_create"), __ATOMIC_RELEASE);
}

int gm_thread_start(void *(*run)(void *), void *arg) {
    typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    sigset_t all, saved;
    pthread_t thread;

    if (!__atomic_load_n(&thread_create, __ATOMIC_ACQUIRE))
        gm_thread_find();
    create_function create = (create_function)__atomic_load_n(&thread_create, __ATOMIC_ACQUIRE);
    int (*detach)(pthread_t) = (int (*)(pthread_t))__atomic_load_n(&thread_detach, __ATOMIC_RELAXED);
    sigfillset(&all);
    if (!create || sigprocmask(SIG_SETMASK, &all, &saved) != 0)
        return -1;
    int failed = create(&thread, NULL, run, arg);
    sigprocmask(SIG_SETMASK, &saved, NULL);
    if (failed)
        return -1;
    if (detach)
        detach(thread);
    return 0;
}

static int key_create(pthread_key_t *key, void (*leave)(void *)) {
    LIBC_FUNCTION("pthread_key_create", "libpthread.so");
    return function ? ((int (*)(pthread_key_t *, void (*)(void *)))function)(key, leave) : -1;
}

GM_LOCK(keys_lock);

int gm_thread_at_exit(void (*leave)(void *), void *value) {
    static struct {
        void (*leave)(void *);
        pthread_key_t key;
    } keys[4];
    LIBC_FUNCTION("pthread_setspecific", "libpthread.so");
    int slot = 0;

    if (!function)
        return -1;
    gm_spin_lock(&keys_lock);
    while (slot < 4 && keys[slot].leave && keys[slot].leave != leave)
        slot++;
    if (slot < 4 && !keys[slot].leave && key_create(&keys[slot].key, leave) == 0)
        keys[slot].leave = leave;
    bool usable = slot < 4 && keys[slot].leave == leave;
    gm_spin_unlock(&keys_lock);
    if (!usable)
        return -1;
    return ((int (*)(pthread_key_t, const void *))function)(keys[slot].key, value);
}
