/* Random programs with a native result that is known, on the simulated driver under SIMCUDA_STREAMS=manual or
 * random.
 *
 * Threads take turns, so the calls have one order. For each stream and for the host, the program tracks which
 * earlier work is ordered before theirs (a vector clock). Whenever two uses of the same memory conflict and the
 * later one is not ordered after the earlier one, the program first makes a call that orders them natively, mostly a
 * cudaFree of other memory. So the expected bytes are those of all work done at once, in the order of the calls. The
 * bytes are checked whenever the host reads, and all of them at the end.
 *
 * Arguments: seed; steps (a shorter program is the beginning of a longer one); "device": only cases that need order
 * on the device; "log": writes each call. Exit status 9: something was wrong. */
#include "ordering_calls.h"

enum { OBJECTS = 14, WARM_UPS = 20 };
static const size_t sizes[] = {4096, (size_t)1 << 20, (size_t)24 << 20};
#define NAME(name) #name,
static const char *const calls[] = {CALLS(NAME)};
static const char *const kinds[] = {KINDS(NAME)};

static struct object objects[OBJECTS];
static unsigned host_knows[STREAMS], step, mistakes;
static int captured = NOBODY; /* stream whose capture is open */
static bool logs;

/* What a program may do. */
static struct {
    int threads, contexts;
    bool hosts, managed, functions, queries, graphs, pools, maps, captures;
    unsigned more_streams; /* a new one about every so many steps; 0 = never */
    unsigned per_thread;   /* all threads use their default streams after about so many steps; 0 = never */
} may;

/* ---- random numbers */

static uint64_t random_state;

static unsigned below(unsigned n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 20) % n;
}

static bool chance(unsigned percent) { return below(100) < percent; }

static void note_mistake(const char *what, const struct object *object, uint32_t have, uint32_t want) {
    if (mistakes++ < 5)
        printf("step %u: %s, %s memory: %#x instead of %#x\n", step, what, object ? kinds[object->kind] : "no", have,
               want);
}

static void run(struct job job) {
    job.thread = job.stream >= 0 && is_of_thread(job.stream) ? job.stream % PER_CONTEXT - OF_THREAD
                                                             : (int)below((unsigned)may.threads);
    job.context = job.stream >= 0 ? job.stream / PER_CONTEXT : job.context;
    if (logs)
        fprintf(stderr, "%u: thread %d: %s stream %d event %d to %d from %d\n", step, job.thread, calls[job.call],
                job.stream, job.event, job.to ? (int)(job.to - objects) : NOBODY,
                job.from ? (int)(job.from - objects) : NOBODY);
    make_by_thread(&job);
    if (job.result == CUDA_ERROR_NOT_READY && (job.call == EVENT_QUERY || job.call == STREAM_QUERY)) {
        note_mistake(calls[job.call], NULL, CUDA_ERROR_NOT_READY, 0);
    } else if (job.result == CUDA_ERROR_ILLEGAL_ADDRESS) { /* memory was released or reused too early */
        printf("step %u: illegal address: %s\n", step, CALL(simcuda_last_violation));
        exit(9);
    } else {
        must((int)job.result, calls[job.call], __LINE__);
    }
}

/* ---- which work is ordered before which */

static void learn(unsigned *knows, const unsigned *more) {
    for (int i = 0; i < STREAMS; i++)
        knows[i] = knows[i] > more[i] ? knows[i] : more[i];
}

/* The work that is ordered before work submitted to the stream now. */
static void knowledge(int stream, unsigned *knows) {
    int context = stream / PER_CONTEXT * PER_CONTEXT;
    memcpy(knows, host_knows, sizeof host_knows);
    if (stream == NOBODY)
        return;
    learn(knows, streams[stream].knows);
    for (int i = context + 1; stream == context && i < context + PER_CONTEXT; i++)
        if (streams[i].blocking)
            learn(knows, streams[i].knows);
    if (streams[stream].blocking)
        learn(knows, streams[context].knows);
}

/* A stream whose work on the object must be ordered before and is not; NOBODY when there is none. */
static int conflict(const unsigned *knows, const struct object *object, bool write) {
    if (object && object->writer != NOBODY && knows[object->writer] < object->written)
        return object->writer;
    for (int i = 0; object && write && i < STREAMS; i++)
        if (knows[i] < object->read[i])
            return i;
    return NOBODY;
}

static void give_work(int stream, struct object *to, struct object *from) {
    unsigned knows[STREAMS];
    knowledge(stream, knows);
    unsigned number = ++knows[stream];
    memcpy(streams[stream].knows, knows, sizeof knows);
    if (to) {
        to->writer = stream;
        to->written = number;
        memset(to->read, 0, sizeof to->read); /* they were ordered before the writer */
    }
    if (from)
        from->read[stream] = number;
}

static void context_done(int context) {
    for (int i = context * PER_CONTEXT; i < (context + 1) * PER_CONTEXT; i++)
        learn(host_knows, streams[i].knows);
}

/* ---- calls that order work */

static struct object *unused_object(void) {
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].kind == NONE)
            return &objects[i];
    return NULL;
}

static void record(int stream, int event) {
    give_work(stream, NULL, NULL);
    run((struct job){.call = RECORD, .stream = stream, .event = event});
    events[event].recorded = true;
    memcpy(events[event].knows, streams[stream].knows, sizeof events[event].knows);
}

static void synchronize(int stream) {
    unsigned knows[STREAMS];
    run((struct job){.call = STREAM_SYNCHRONIZE, .stream = stream});
    knowledge(stream, knows);
    learn(host_knows, streams[stream].knows);
    if (stream % PER_CONTEXT == LEGACY)
        learn(host_knows, knows);
}

/* A free of memory that is not needed, used or unused. */
static void free_some(int context) {
    static struct object scratch;
    int stream = context * PER_CONTEXT + LEGACY;
    scratch = (struct object){.kind = may.pools && chance(15) ? PITCHED : DEVICE, .context = context, .writer = NOBODY};
    run((struct job){.call = ALLOC, .stream = NOBODY, .context = context, .to = &scratch, .size = sizes[below(3)]});
    while (chance(50)) {
        stream = context * PER_CONTEXT + (int)below(PER_CONTEXT);
        if (!streams[stream].usable)
            continue;
        give_work(stream, NULL, NULL);
        run((struct job){.call = SET, .stream = stream, .to = &scratch, .value = below(1000)});
        break;
    }
    run((struct job){.call = FREE, .stream = NOBODY, .context = (int)below((unsigned)may.contexts), .to = &scratch});
    context_done(context);
}

/* Orders the work submitted to `other` before later work of `stream` (NOBODY: the host). */
static void bring_order(int stream, int other) {
    unsigned way = below(100);
    int event = (int)below(EVENTS);
    if (way < 70) {
        free_some(other / PER_CONTEXT);
    } else if (way < 85) {
        /* Events belong to the first context's device. */
        if (other >= PER_CONTEXT || stream >= PER_CONTEXT) {
            synchronize(other);
            return;
        }
        record(other, event);
        if (stream == NOBODY) {
            run((struct job){.call = EVENT_SYNCHRONIZE, .stream = NOBODY, .event = event});
            learn(host_knows, events[event].knows);
        } else {
            run((struct job){.call = WAIT, .stream = stream, .event = event});
            give_work(stream, NULL, NULL);
            learn(streams[stream].knows, events[event].knows);
        }
    } else if (way < 95 || captured != NOBODY) {
        synchronize(other);
    } else {
        run((struct job){.call = CONTEXT_SYNCHRONIZE, .stream = NOBODY, .context = other / PER_CONTEXT});
        context_done(other / PER_CONTEXT);
    }
}

static void order(int stream, const struct object *to, const struct object *from) {
    unsigned knows[STREAMS];
    for (;;) {
        knowledge(stream, knows);
        int other = conflict(knows, to, true);
        if (other == NOBODY)
            other = conflict(knows, from, false);
        if (other == NOBODY)
            return;
        bring_order(stream, other);
    }
}

/* ---- steps */

static bool on_host(const struct object *object) { return object->kind >= PINNED; }
static bool on_device(const struct object *object) { return object->kind != NONE && object->kind != PLAIN; }

static struct object *pick(bool (*suits)(const struct object *), int context) {
    unsigned first = below(OBJECTS);
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct object *object = &objects[(first + i) % OBJECTS];
        if (object->kind != NONE && suits(object) &&
            (context == NOBODY || object->context == context || object->kind == PLAIN))
            return object;
    }
    return NULL;
}

static int pick_stream(int context) {
    for (;;) {
        int stream = (int)below((unsigned)may.contexts * PER_CONTEXT);
        if (streams[stream].usable && (context == NOBODY || stream / PER_CONTEXT == context))
            return stream;
    }
}

static void new_stream(int number) {
    run((struct job){.call = NEW_STREAM, .stream = number});
    memcpy(streams[number].knows, host_knows, sizeof host_knows);
    streams[number].usable = true;
}

static void host_write(struct object *object) {
    order(NOBODY, object, NULL);
    uint32_t value = below(1u << 30);
    for (int i = 0; i < WORDS; i++)
        object->want[i] = value + (uint32_t)i * 2654435761u;
    run((struct job){.call = HOST_WRITE, .stream = NOBODY, .context = object->context, .to = object});
}

static void check_words(const char *what, const struct object *object, const uint32_t *have) {
    for (int i = 0; i < WORDS; i++)
        if (have[i] != object->want[i]) {
            note_mistake(what, object, have[i], object->want[i]);
            return;
        }
}

static void host_read(const struct object *object) {
    order(NOBODY, NULL, object);
    check_words("the host reads", object, (const uint32_t *)object->address);
}

static void set(int stream, struct object *to) {
    uint32_t value = below(1u << 30);
    order(stream, to, NULL);
    give_work(stream, to, NULL);
    for (int i = 0; i < WORDS; i++)
        to->want[i] = value;
    run((struct job){.call = SET, .stream = stream, .to = to, .value = value});
}

static void copy(int stream, struct object *to, struct object *from, bool graph) {
    order(stream, to, from);
    give_work(stream, to, from);
    memcpy(to->want, from->want, BYTES);
    run((struct job){.call = graph ? GRAPH_COPY : COPY, .stream = stream, .to = to, .from = from, .value = below(2)});
}

static void compute(enum call call, int stream, struct object *to, struct object *from) {
    uint32_t value = below(1u << 30), want[WORDS];
    order(stream, to, from);
    give_work(stream, to, from);
    mix_words(want, from->want, value);
    memcpy(to->want, want, BYTES);
    run((struct job){.call = call, .stream = stream, .to = to, .from = from, .value = value});
}

static void copy_down(struct object *from) {
    uint32_t seen[WORDS];
    int legacy = from->context * PER_CONTEXT + LEGACY;
    order(legacy, NULL, from);
    give_work(legacy, NULL, from);
    run((struct job){.call = COPY_DOWN, .stream = legacy, .from = from, .seen = seen});
    learn(host_knows, streams[legacy].knows);
    check_words("a copy to the host", from, seen);
}

static void allocate_object(struct object *object, enum kind kind, int context) {
    *object = (struct object){.kind = kind, .context = context, .writer = NOBODY};
    int stream = pick_stream(context);
    size_t size = sizes[below(3)];
    if (kind == POOLED) {
        give_work(stream, object, NULL);
        run((struct job){.call = ALLOC_ASYNC, .stream = stream, .to = object, .size = size});
    } else {
        run((struct job){.call = ALLOC, .stream = NOBODY, .context = context, .to = object, .size = size});
    }
    if (kind >= PINNED && chance(50))
        host_write(object);
    else if (kind != PLAIN)
        set(stream, object);
    else
        host_write(object);
}

static void free_object(struct object *object) {
    if (object->kind == POOLED) {
        int stream = pick_stream(object->context);
        order(stream, object, NULL);
        give_work(stream, NULL, NULL);
        run((struct job){.call = FREE_ASYNC, .stream = stream, .to = object});
    } else if (object->kind == MAPPED) {
        order(NOBODY, object, NULL);
        run((struct job){.call = UNMAP, .stream = NOBODY, .context = object->context, .to = object});
    } else {
        /* The free waits for the context of the block, not for others. */
        unsigned knows[STREAMS];
        memcpy(knows, host_knows, sizeof knows);
        for (int i = object->context * PER_CONTEXT; i < (object->context + 1) * PER_CONTEXT; i++)
            learn(knows, streams[i].knows);
        for (int other; (other = conflict(knows, object, true)) != NOBODY; learn(knows, host_knows))
            synchronize(other);
        run((struct job){.call = FREE, .stream = NOBODY, .context = (int)below((unsigned)may.contexts), .to = object});
        context_done(object->context);
    }
    object->kind = NONE;
}

static bool all_known(const unsigned *knows) {
    for (int i = 0; i < STREAMS; i++)
        if (host_knows[i] < knows[i])
            return false;
    return true;
}

static bool can_free(const struct object *object) { return object->kind <= MAPPED || object->kind == MANAGED; }

static void allocate_random(void) {
    static const enum kind host_kinds[] = {PINNED, PINNED, REGISTERED, MANAGED, PLAIN};
    struct object *object = unused_object();
    int context = (int)below((unsigned)may.contexts);
    if (!object)
        return;
    enum kind kind = may.hosts && chance(40) ? host_kinds[below(5)] : may.pools && chance(30) ? POOLED : DEVICE;
    if (may.maps && kind == DEVICE && chance(25))
        kind = MAPPED;
    if ((kind == MANAGED && !may.managed) || (kind == PLAIN && !may.functions))
        kind = DEVICE;
    allocate_object(object, kind, kind >= MAPPED ? 0 : context);
}

static void work_on_stream(void) {
    struct object *to = pick(may.functions && chance(30) ? on_host : on_device, NOBODY);
    int stream = pick_stream(to ? to->context : 0);
    unsigned what = below(100);
    if (!to)
        return;
    if (may.functions && (to->kind == PLAIN || (what < 15 && on_host(to)))) {
        compute(HOST_FUNCTION, pick_stream(0), to, pick(on_host, NOBODY));
    } else if (what < 30) {
        set(stream, to);
    } else if (what < 55) {
        struct object *from = pick(on_device, to->context);
        if (from && from != to)
            compute(KERNEL, stream, to, from);
    } else {
        struct object *from = pick(on_device, NOBODY);
        bool created = stream % PER_CONTEXT >= FIRST_CREATED;
        bool far = from && from->context != to->context;
        if (from && from != to && !(far && (from->kind != DEVICE || to->kind != DEVICE)))
            copy(stream, to, from, may.graphs && created && !far && chance(15));
    }
}

static void look(void) {
    struct object *object = pick(on_host, NOBODY), *there = pick(on_device, NOBODY);
    int stream = pick_stream(NOBODY), event = (int)below(EVENTS);
    if (may.queries && chance(20) && all_known(streams[stream].knows))
        run((struct job){.call = STREAM_QUERY, .stream = stream});
    else if (may.queries && chance(20) && events[event].recorded && all_known(events[event].knows))
        run((struct job){.call = EVENT_QUERY, .stream = NOBODY, .event = event});
    else if (object && chance(70))
        host_read(object);
    else if (there)
        copy_down(there);
}

static void begin_or_end_capture(void) {
    if (captured != NOBODY) {
        run((struct job){.call = END_CAPTURE, .stream = captured});
        streams[captured].usable = true;
        captured = NOBODY;
        return;
    }
    for (int i = FIRST_CREATED + 1; i < PER_CONTEXT && captured == NOBODY; i++)
        if (streams[i].usable && !streams[i].blocking)
            captured = i;
    if (captured == NOBODY)
        return;
    streams[captured].usable = false;
    synchronize(captured); /* nothing has to wait for it while it captures */
    run((struct job){.call = BEGIN_CAPTURE, .stream = captured});
}

static void one_step(void) {
    struct object *object;
    int number = (int)below((unsigned)may.contexts) * PER_CONTEXT + FIRST_CREATED + (int)below(CREATED);
    unsigned what = below(100);
    if (may.more_streams && below(may.more_streams) == 0 && !streams[number].usable && streams[number].handle == NULL)
        new_stream(number);
    if (may.per_thread && below(may.per_thread) == 0)
        for (int thread = 0; thread < may.threads; thread++)
            streams[OF_THREAD + thread].usable = true;
    if (may.captures && chance(5))
        begin_or_end_capture();
    if (what < 12)
        allocate_random();
    else if (what < 20 && (object = pick(can_free, NOBODY)) != NULL)
        free_object(object);
    else if (what < 25 && may.hosts && (object = pick(on_host, NOBODY)) != NULL)
        host_write(object);
    else if (what < 40)
        look();
    else if (what < 45 && may.queries)
        record(pick_stream(0), (int)below(EVENTS));
    else
        work_on_stream();
}

static void check_all(void) {
    if (captured != NOBODY)
        begin_or_end_capture();
    for (int context = 0; context < may.contexts; context++) {
        run((struct job){.call = CONTEXT_SYNCHRONIZE, .stream = NOBODY, .context = context});
        context_done(context);
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (objects[i].kind >= PINNED)
            host_read(&objects[i]);
        else if (objects[i].kind != NONE)
            copy_down(&objects[i]);
    }
}

/* ---- what a program may do */

static void choose(bool device_only) {
    bool one_stream = chance(30); /* at first */
    may.threads = 1 + (int)below(THREADS);
    may.contexts = !device_only && chance(20) ? 2 : 1;
    may.hosts = !device_only && chance(60);
    may.managed = may.hosts && chance(40);
    may.functions = may.hosts && chance(40);
    may.queries = !device_only && chance(30);
    may.maps = !device_only && chance(20);
    may.graphs = chance(30);
    may.captures = chance(25);
    may.pools = chance(50);
    may.more_streams = chance(80) ? 5 + below(60) : 0;
    may.per_thread = chance(30) ? 1 + below(100) : 0;
    for (int i = 0; i < may.contexts; i++) {
        struct stream *own = &streams[i * PER_CONTEXT];
        own[LEGACY].handle = chance(50) ? NULL : CU_STREAM_LEGACY;
        own[LEGACY].usable = one_stream || chance(60);
        for (int thread = 0; thread < THREADS; thread++)
            own[OF_THREAD + thread] = (struct stream){.handle = CU_STREAM_PER_THREAD, .blocking = true};
        for (int number = FIRST_CREATED; number < PER_CONTEXT; number++)
            own[number].blocking = chance(30);
        if (!one_stream)
            new_stream(i * PER_CONTEXT + FIRST_CREATED);
    }
}

/* After this, sizes are known to the policy. */
static void warm_up(void) {
    for (int i = 0; i < WARM_UPS * 3; i++) {
        CUdeviceptr address;
        MUST(CALL(cuMemAlloc_v2, &address, sizes[i % 3]));
        MUST(CALL(cuMemFree_v2, address));
    }
    for (int i = 0; i < EVENTS; i++)
        MUST(CALL(cuEventCreate, &events[i].handle, CU_EVENT_DEFAULT));
}

static void reach_each_other(void) {
    for (int i = 0; i < may.contexts && may.contexts > 1; i++) {
        MUST(CALL(cuCtxSetCurrent, contexts[i]));
        MUST(CALL(cuCtxEnablePeerAccess, contexts[1 - i], 0));
    }
}

int main(int count, char **words) {
    unsigned seed = count > 1 ? (unsigned)atoi(words[1]) : 1, steps = count > 2 ? (unsigned)atoi(words[2]) : 200;
    bool device_only = false;
    for (int i = 3; i < count; i++) {
        device_only |= strcmp(words[i], "device") == 0;
        logs |= strcmp(words[i], "log") == 0;
    }
    random_state = seed * 2654435761u + 88172645463325252u;
    load_driver();
    warm_up();
    start_threads();
    choose(device_only);
    reach_each_other();
    for (int i = 0; i < 4; i++)
        allocate_object(&objects[i], i == 3 && may.hosts ? PINNED : DEVICE, 0);
    for (step = 1; step <= steps; step++)
        one_step();
    check_all();
    end_threads();
    mistakes += CALL(simcuda_violations) != 0;
    printf("%s ordering_random %u: %u mistakes\n", mistakes ? "not ok" : "ok", seed, mistakes);
    return mistakes ? 9 : 0;
}
