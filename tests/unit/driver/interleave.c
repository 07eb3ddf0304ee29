/* The explorer (interleave.h). */
#undef _FORTIFY_SOURCE /* its longjmp knows one stack only */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "tests/unit/driver/interleave.h"

enum {
    ACCESSED = 1024,
    STACK = 65536,
    CLEAN = 16384,
    DEPTH = 4096,
    STEPS = 20000,
    SEEN = 1 << 21,
    BLOCK = 128,
    BLOCKS = 4096,
    RARELY = 64,
    PAGES = 16384
};
enum status { READY, LOCKED, PAUSED, FINISHED };

struct thread {
    jmp_buf first, at;
    ucontext_t context;
    char *stack;
    const char *top, *low; /* its live part */
    char *base;            /* where it ends before the first point */
    enum status status;
    const gm_spin *lock; /* that it waits for */
    bool news;           /* the other thread has written since the last pause */
};

static struct explorer {
    struct thread threads[IL_THREADS];
    jmp_buf main;
    ucontext_t main_context;
    unsigned self; /* the thread that runs */
    const struct il_program *program;
    const char *fault;
    struct node {
        uint8_t chosen, other; /* other: not tried yet */
        uint16_t preemptions;  /* before the choice */
        uint64_t state;
    } path[DEPTH];
    unsigned depth, length, steps, preemptions, most_preemptions;
    uint64_t salt, states;
    bool undecided; /* the main thread has to choose */
    char *data, *initial;
    size_t size;
    /* Blocks of the static data that any run has changed. All others are looked at rarely. */
    uint16_t changed[BLOCKS];
    bool is_changed[BLOCKS];
    unsigned changed_count, rarely;
    struct accessed {
        const volatile void *address;
        uint8_t by;
        bool written, shared;
    } accessed[ACCESSED];
    bool again; /* the program is explored again, with more points */
    uint64_t seen[SEEN];
    size_t seen_count;
    char notes[4096];
    size_t noted;
    bool notes_wanted;
    const char *where; /* the running thread is */
} * x;                 /* on the heap: the static data are set back before each run */

extern char __data_start[], _end[];

/* ---- states */

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const char *at = data;
    uint64_t lanes[4] = {hash, 1, 2, 3}, word;
    for (; bytes >= 32; bytes -= 32, at += 32)
        for (int i = 0; i < 4; i++) {
            memcpy(&word, at + 8 * i, 8);
            lanes[i] = (lanes[i] ^ word) * 0x9e3779b97f4a7c15ull;
            lanes[i] ^= lanes[i] >> 29;
        }
    for (; bytes >= 8; bytes -= 8, at += 8) {
        memcpy(&word, at, 8);
        lanes[0] = (lanes[0] ^ word) * 0x9e3779b97f4a7c15ull;
        lanes[0] ^= lanes[0] >> 29;
    }
    for (int i = 1; i < 4; i++)
        lanes[0] = ((lanes[0] ^ lanes[i]) * 0xbf58476d1ce4e5b9ull) ^ (lanes[0] >> 31);
    return lanes[0];
}

static size_t bytes_of(size_t block) { return x->size - block * BLOCK < BLOCK ? x->size - block * BLOCK : BLOCK; }
static bool differs(size_t block) {
    return memcmp(x->data + block * BLOCK, x->initial + block * BLOCK, bytes_of(block)) != 0;
}

static void note_changed(size_t block) {
    if (x->is_changed[block])
        return;
    x->is_changed[block] = x->again = true;
    x->changed[x->changed_count++] = (uint16_t)block;
}

static void find_changed(void) {
    for (size_t i = 0; i * BLOCK < x->size; i++)
        if (differs(i))
            note_changed(i);
}

static uint64_t state(void) {
    uint64_t hash = x->salt;
    for (unsigned i = 0; i < x->changed_count; i++)
        hash = mix(hash, x->data + x->changed[i] * BLOCK, bytes_of(x->changed[i]) & ~7ul);
    for (int i = 0; i < IL_THREADS; i++) {
        const struct thread *thread = &x->threads[i];
        uint64_t head[] = {thread->status | (uint64_t)thread->news << 8, (uintptr_t)thread->lock,
                           (uintptr_t)thread->low};
        hash = mix(hash, head, sizeof head);
        if (thread->status == FINISHED)
            continue;
        hash = mix(hash, thread->at->__jmpbuf, sizeof thread->at->__jmpbuf); /* the registers */
        hash = mix(hash, thread->low, (size_t)(thread->top - thread->low) & ~7ul);
    }
    return hash ? hash : 1;
}

/* False: it was seen before. */
static bool see(uint64_t hash) {
    size_t at = hash % SEEN;
    if (x->seen_count > SEEN / 2) {
        memset(x->seen, 0, sizeof x->seen);
        x->seen_count = 0;
    }
    for (; x->seen[at]; at = (at + 1) % SEEN)
        if (x->seen[at] == hash)
            return false;
    x->seen[at] = hash;
    x->seen_count++;
    return true;
}

static void set_back(bool all) {
    if (all)
        find_changed();
    for (unsigned i = 0; i < x->changed_count; i++)
        memcpy(x->data + x->changed[i] * BLOCK, x->initial + x->changed[i] * BLOCK, bytes_of(x->changed[i]));
}

/* ---- threads */

static __attribute__((noinline)) void switch_to(jmp_buf to, jmp_buf from, struct thread *leaves) {
    if (leaves)
        leaves->low = (const char *)((uintptr_t)__builtin_frame_address(0) & ~15ul);
    if (!_setjmp(from))
        _longjmp(to, 1);
}

static bool is_enabled(const struct thread *thread) {
    return thread->status == READY || (thread->status == LOCKED && !thread->lock->held);
}

static void continue_main(void) {
    struct thread *me = &x->threads[x->self];
    switch_to(x->main, me->at, me);
}

/* The thread reaches a point. Returns when it may go on. */
static void reach(enum status status) {
    unsigned self = x->self;
    struct thread *me = &x->threads[self], *other = &x->threads[1 - self];
    me->status = status;
    if (++x->steps > STEPS && !x->fault)
        x->fault = "a thread does not come to an end";
    bool mine = is_enabled(me), others = is_enabled(other);
    if (!x->fault && mine && !others)
        return (void)(me->status = READY);
    if (!x->fault && mine && others && x->depth < x->length && x->path[x->depth].chosen == self)
        return (void)(x->depth++, me->status = READY);
    continue_main();
    x->threads[self].status = READY;
}

static __attribute__((noinline)) void note_base(struct thread *thread) { thread->base = __builtin_frame_address(0); }

static void thread_main(int self) {
    note_base(&x->threads[self]);
    if (!_setjmp(x->threads[self].first))
        swapcontext(&x->threads[self].context, &x->main_context);
    x->program->run(x->self);
    x->threads[x->self].status = FINISHED;
    _longjmp(x->main, 1);
}

static void tell_other(void) {
    struct thread *other = &x->threads[1 - x->self];
    other->news = true;
    if (other->status == PAUSED)
        other->status = READY;
}

/* Both threads access what is at the address, and one of them writes. */
static bool is_shared(const volatile void *address, bool writes) {
    size_t at = ((uintptr_t)address * 0x9e3779b97f4a7c15ull >> 40) % ACCESSED;
    while (x->accessed[at].address && x->accessed[at].address != address)
        at = (at + 1) % ACCESSED;
    struct accessed *of = &x->accessed[at];
    if (!of->address && (uintptr_t)address - (uintptr_t)x->data < x->size)
        note_changed((size_t)((const volatile char *)address - x->data) / BLOCK);
    of->address = address;
    of->by |= 1u << x->self;
    of->written |= writes;
    if (!of->shared && of->by == 3 && of->written)
        of->shared = x->again = true;
    return of->shared;
}

void il_point(const volatile void *at, bool writes, const char *where) {
    if (!x || x->self == IL_MAIN)
        return;
    if (!is_shared(at, writes)) {
        if (writes)
            tell_other();
        return;
    }
    x->where = where;
    reach(READY);
    if (writes)
        tell_other();
}

void il_pause(const char *where) {
    if (!x || x->self == IL_MAIN)
        return (void)(++x->steps > STEPS ? il_fault("the main thread does not come to an end") : (void)0);
    struct thread *me = &x->threads[x->self];
    x->where = where;
    bool news = me->news;
    me->news = false;
    reach(news ? READY : PAUSED);
}

void il_lock(gm_spin *lock, const char *where) {
    if (x && x->self != IL_MAIN && is_shared(lock, true)) {
        x->where = where;
        x->threads[x->self].lock = lock;
        reach(LOCKED);
        x->threads[x->self].lock = NULL;
    }
    if (lock->held)
        il_fault("a thread takes a lock twice");
    lock->held = 1;
}

bool il_try(gm_spin *lock, const char *where) {
    il_point(&lock->held, true, where);
    bool got = !lock->held;
    lock->held = 1;
    return got;
}

void il_unlock(gm_spin *lock) {
    lock->held = 0;
    if (x && x->self != IL_MAIN)
        tell_other();
}

void il_written(void) {
    if (x && x->program && x->program->written)
        x->program->written();
}

void *il_pages(size_t bytes) {
    static char pages[PAGES] __attribute__((aligned(64)));
    static size_t used;
    if (used + bytes > sizeof pages)
        return NULL;
    used += bytes;
    return pages + used - bytes;
}

unsigned il_thread(void) { return x ? x->self : IL_MAIN; }
bool il_has_fault(void) { return x->fault != NULL; }

void il_fault(const char *text) {
    if (!x->fault)
        x->fault = text;
    if (x->self != IL_MAIN)
        continue_main();
}

void il_note(const char *text) {
    if (x && x->notes_wanted && x->noted + 1 < sizeof x->notes)
        x->noted +=
            (size_t)snprintf(x->notes + x->noted, sizeof x->notes - x->noted, "  %*s%s\n", (int)x->self * 4, "", text);
}

__attribute__((noinline)) void il_clean_stack(void) {
    char below[2048];
    memset(below, 0, sizeof below);
    if (x->self != IL_MAIN)
        x->threads[x->self].news = true;
    __asm__ volatile("" : : "r"(below) : "memory");
}

/* ---- runs */

static void choose(unsigned next) {
    if (x->notes_wanted && x->steps && next != x->self && x->threads[x->self].status != FINISHED) {
        il_note("... is interrupted at");
        il_note(x->where);
    }
    x->preemptions += x->steps && next != x->self && x->threads[x->self].status == READY;
    x->self = next;
}

/* Chooses the next thread. False: the run is over. */
static bool decide(unsigned current) {
    bool enabled[IL_THREADS];
    unsigned count = 0;
    for (unsigned i = 0; i < IL_THREADS; i++)
        count += enabled[i] = is_enabled(&x->threads[i]);
    x->self = current;
    if (!count) {
        for (unsigned i = 0; i < IL_THREADS && !x->fault; i++)
            if (x->threads[i].status != FINISHED)
                x->fault = "the threads wait for each other, or for nothing";
        return false;
    }
    if (count == 1)
        return choose(enabled[1]), true;
    if (x->depth == x->length) {
        bool forced = x->threads[current].status == READY && x->preemptions >= x->most_preemptions;
        uint64_t bounds[] = {x->preemptions, current}, hash = state();
        if (x->most_preemptions != UINT32_MAX)
            hash = mix(hash, bounds, sizeof bounds);
        if (!see(hash)) {
            for (unsigned i = 0; i < x->depth; i++)
                if (x->path[i].state == hash)
                    x->fault = "the threads go round in a circle";
            return false;
        }
        if (x->length == DEPTH)
            return x->fault = "too many choices", false;
        x->path[x->length++] = (struct node){(uint8_t)current, !forced, (uint16_t)x->preemptions, hash};
        x->states++;
    }
    choose(x->path[x->depth++].chosen);
    return true;
}

static void run(void) {
    set_back(++x->rarely % RARELY == 0);
    x->depth = x->steps = x->preemptions = 0;
    x->noted = 0, x->notes[0] = '\0';
    x->self = IL_MAIN;
    x->program->before();
    if (x->fault)
        return;
    for (int i = 0; i < IL_THREADS; i++) {
        struct thread *thread = &x->threads[i];
        memset(thread->stack + STACK - CLEAN, 0, (size_t)(thread->base - (thread->stack + STACK - CLEAN)));
        thread->low = thread->base;
        memcpy(thread->at, thread->first, sizeof thread->at);
        thread->status = READY;
        thread->lock = NULL;
        thread->news = true;
    }
    unsigned current = 0;
    while (!x->fault && decide(current)) {
        current = x->self;
        switch_to(x->threads[current].at, x->main, NULL);
        current = x->self;
    }
    bool over = x->threads[0].status == FINISHED && x->threads[1].status == FINISHED;
    x->self = IL_MAIN;
    if (over && !x->fault)
        x->program->after();
}

static bool next_path(void) {
    while (x->length && !x->path[x->length - 1].other)
        x->length--;
    if (!x->length)
        return false;
    struct node *last = &x->path[x->length - 1];
    last->chosen = 1 - last->chosen;
    last->other = 0;
    return true;
}

void il_explore(const struct il_program *program, unsigned preemptions, uint64_t most_runs, struct il_result *result) {
    *result = (struct il_result){0};
    x->program = program;
    x->most_preemptions = preemptions;
    x->length = 0;
    x->salt = (x->salt | 0xffff) + 1;
    x->states = 0;
    x->fault = NULL;
    memset(x->accessed, 0, sizeof x->accessed);
    while (!x->fault && result->runs < most_runs && !result->complete) {
        x->again = false;
        run();
        result->runs++;
        if (x->fault || result->runs < 8)
            find_changed();
        if (x->again)
            x->fault = NULL, x->length = 0, x->salt++, x->states = 0;
        else if (!x->fault)
            result->complete = !next_path();
    }
    result->fault = x->fault;
    if (x->fault && x->length < DEPTH) { /* the same run again, with its text */
        x->fault = NULL;
        x->notes_wanted = true;
        run();
        x->notes_wanted = false;
    }
    result->states = x->states;
    result->preemptions = x->preemptions;
    memcpy(result->schedule, x->notes, sizeof x->notes);
    x->program = NULL;
    x->self = IL_MAIN;
    x->fault = NULL;
    set_back(true);
}

static void start_thread(int self) {
    struct thread *thread = &x->threads[self];
    thread->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    thread->top = thread->stack + STACK;
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK;
    makecontext(&thread->context, (void (*)(void))thread_main, 1, self);
    swapcontext(&x->main_context, &thread->context);
}

void il_start(void) {
    struct explorer *made = calloc(1, sizeof *made);
    made->data = __data_start;
    made->size = (size_t)(_end - __data_start);
    made->initial = malloc(made->size);
    made->self = IL_MAIN;
    x = made;
    for (int i = 0; i < IL_THREADS; i++)
        start_thread(i);
    memcpy(made->initial, made->data, made->size);
}
