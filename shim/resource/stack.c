/* Parses stack texts and builds stacks of resources. Grammar: resource = maker | adaptor "(" [argument ","] resource
 * ")".
 *
 * A stack is a chain of adaptors with one maker at its end. So the parser is a loop: it reads names and arguments from
 * the outside in, then as many closing brackets as it opened. */
#include "shim/resource/stack.h"

#include <string.h>
#include <sys/mman.h>

struct word {
    const char *text;
    size_t size;
};

static bool is_space(char c) { return c == ' ' || c == '\t'; }

static const char *skip_spaces(const char *at) {
    while (is_space(*at))
        at++;
    return at;
}

/* Reads up to the next bracket, comma or end of text. The word has no spaces around it. */
static struct word read_word(const char **at) {
    const char *begin = skip_spaces(*at), *end = begin;
    while (*end && !strchr("(),", *end))
        end++;
    *at = end;
    while (end > begin && is_space(end[-1]))
        end--;
    return (struct word){begin, (size_t)(end - begin)};
}

/* Copies `word` for an error line: at most 40 bytes, with "?" for what is not printable. */
static const char *shown(struct word word, char out[48]) {
    size_t size = word.size < 40 ? word.size : 40;
    for (size_t i = 0; i < size; i++)
        out[i] = word.text[i] >= ' ' && word.text[i] < 127 ? word.text[i] : '?';
    memcpy(out + size, word.size > size ? "..." : "", word.size > size ? 4 : 1);
    return out;
}

static const struct gm_resource_ops *find_row(struct word word) {
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if (strlen((*row)->name) == word.size && !memcmp((*row)->name, word.text, word.size))
            return *row;
    return NULL;
}

/* Writes the accepted names, e.g. "native, async, limit(BYTES,...)". */
static void list_rows(char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row && used + 1 < size; row++) {
        const char *comma = used ? ", " : "", *arguments = (*row)->arguments;
        if ((*row)->adaptor)
            used += (size_t)gm_format(out + used, size - used, "%s%s(%s%s...)", comma, (*row)->name,
                                      arguments ? arguments : "", arguments ? "," : "");
        else
            used += (size_t)gm_format(out + used, size - used, "%s%s", comma, (*row)->name);
    }
}

static gm_status unknown_name(struct word word, char *error, size_t size) {
    char accepted[256], name[48];
    list_rows(accepted, sizeof accepted);
    if (word.size)
        gm_format(error, size, "\"%s\" is not a resource; accepted: %s", shown(word, name), accepted);
    else
        gm_format(error, size, "a resource is missing at \"%s\"; accepted: %s",
                  *word.text ? shown((struct word){word.text, 1}, name) : "the end", accepted);
    return GM_INVALID_VALUE;
}

/* Reads "[argument ,]" after the opening bracket of an adaptor. A word is an argument if a comma follows it. */
static gm_status read_argument(struct gm_stack_plan *plan, const char **at, char *error, size_t size) {
    const struct gm_resource_ops *row = plan->items[plan->count].ops;
    const char *begin = *at, *end = begin;
    char text[48];
    struct word word = read_word(&end);
    if (*end != ',') {
        *at = begin;
        return GM_OK;
    }
    if (!row->arguments) {
        gm_format(error, size, "\"%s\" is one argument too many: %s takes a resource only", shown(word, text),
                  row->name);
        return GM_INVALID_VALUE;
    }
    if (!word.size || word.size >= GM_STACK_ARGUMENT) {
        gm_format(error, size, "\"%s\" is not an argument of %s; accepted: %s", shown(word, text), row->name,
                  row->arguments);
        return GM_INVALID_VALUE;
    }
    memcpy(plan->items[plan->count].argument, word.text, word.size);
    plan->items[plan->count].argument[word.size] = '\0';
    plan->items[plan->count].has_argument = true;
    *at = end + 1;
    return GM_OK;
}

static gm_status expect_closing(const char *at, unsigned open, char *error, size_t size) {
    char text[48];
    for (; open; open--) {
        at = skip_spaces(at);
        if (*at != ')') {
            gm_format(error, size, "\"%s\" where \")\" is expected, %u still open",
                      *at ? shown((struct word){at, strlen(at)}, text) : "the end", open);
            return GM_INVALID_VALUE;
        }
        at++;
    }
    at = skip_spaces(at);
    if (!*at)
        return GM_OK;
    gm_format(error, size, "\"%s\" stands after the end of the resource", shown((struct word){at, strlen(at)}, text));
    return GM_INVALID_VALUE;
}

gm_status gm_stack_parse(const char *text, struct gm_stack_plan *plan, char *error, size_t error_size) {
    const char *at = text;
    char name[48];
    memset(plan, 0, sizeof *plan);
    for (;;) {
        struct word word = read_word(&at);
        const struct gm_resource_ops *row = find_row(word);
        if (!row)
            return unknown_name(word, error, error_size);
        if (plan->count == GM_STACK_DEPTH) {
            gm_format(error, error_size, "\"%s\" is nested too deep; at most %d resources", shown(word, name),
                      GM_STACK_DEPTH);
            return GM_INVALID_VALUE;
        }
        plan->items[plan->count].ops = row;
        if (!row->adaptor) {
            plan->count++;
            return expect_closing(at, plan->count - 1, error, error_size);
        }
        if (*at != '(') {
            gm_format(error, error_size, "\"%s\" wraps a resource: write %s(%s%s...)", row->name, row->name,
                      row->arguments ? row->arguments : "", row->arguments ? "," : "");
            return GM_INVALID_VALUE;
        }
        at++;
        gm_status status = read_argument(plan, &at, error, error_size);
        if (status)
            return status;
        plan->count++;
    }
}

/* An error quotes the argument as the user wrote it. Replaces control characters, so that the error stays one line. */
static void keep_one_line(char *error, size_t size) {
    for (size_t i = 0; i < size && error[i]; i++)
        if ((unsigned char)error[i] < ' ' || error[i] == 127)
            error[i] = '?';
}

#define ALIGNED(bytes) (((bytes) + 63) & ~(size_t)63)

/* A stack lies in one mapping. Its first bytes hold the size of the mapping. */
struct stack_head {
    size_t bytes;
    char padding[64 - sizeof(size_t)];
};

static size_t stack_bytes(const struct gm_stack_plan *plan) {
    size_t bytes = sizeof(struct stack_head);
    for (unsigned i = 0; i < plan->count; i++)
        bytes += ALIGNED(sizeof(struct gm_resource)) + ALIGNED(plan->items[i].ops->state_size);
    return bytes;
}

struct gm_resource *gm_resource_build(const char *text, char *error, size_t error_size) {
    struct gm_stack_plan plan;
    if (gm_stack_parse(text, &plan, error, error_size))
        return NULL;
    size_t bytes = stack_bytes(&plan);
    struct stack_head *head = gm_pages(bytes);
    if (!head) {
        gm_format(error, error_size, "\"%.40s\": no memory for %zu bytes of state", text, bytes);
        return NULL;
    }
    head->bytes = bytes;

    /* The outermost resource comes right after the head, so that gm_stack_discard finds the head. Resources are opened
     * from the inside out, because an adaptor reads what its upstream is. */
    struct gm_resource *nodes[GM_STACK_DEPTH];
    char *at = (char *)(head + 1);
    for (unsigned i = 0; i < plan.count; i++) {
        nodes[i] = (struct gm_resource *)at;
        nodes[i]->ops = plan.items[i].ops;
        nodes[i]->state = at + ALIGNED(sizeof(struct gm_resource));
        at += ALIGNED(sizeof(struct gm_resource)) + ALIGNED(plan.items[i].ops->state_size);
    }
    for (unsigned i = plan.count; i-- > 0;) {
        struct gm_resource *node = nodes[i];
        node->upstream = i + 1 < plan.count ? nodes[i + 1] : NULL;
        node->properties = node->upstream ? node->upstream->properties & node->ops->properties : node->ops->properties;
        node->kind = node->upstream ? node->upstream->kind : node->ops->kind;
        const char *argument = plan.items[i].has_argument ? plan.items[i].argument : NULL;
        if (node->ops->open && node->ops->open(node, argument, error, error_size)) {
            keep_one_line(error, error_size);
            gm_stack_discard(nodes[0]);
            return NULL;
        }
    }
    return nodes[0];
}

void gm_stack_discard(struct gm_resource *top) {
    if (!top)
        return;
    struct stack_head *head = (struct stack_head *)top - 1;
    munmap(head, head->bytes);
}

/* Promises and the properties that keep them. Memory keeps a promise if it has all properties of the row. */
static const struct {
    uint32_t promise, properties;
} kept_by[] = {
    {GM_PROMISE_READY_ANYWHERE, GM_PROP_READY_ANYWHERE},
    {GM_PROMISE_STREAM_ORDER, GM_PROP_STREAM_ORDERED},
    {GM_PROMISE_DEVICE_ACCESS, GM_PROP_DEVICE_ACCESSIBLE},
    {GM_PROMISE_HOST_ACCESS, GM_PROP_HOST_ACCESSIBLE},
    /* Memory is managed memory if host and device access it and it may exceed the device. */
    {GM_PROMISE_MANAGED, GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_OVERSUBSCRIBABLE},
    {GM_PROMISE_CAPTURE, GM_PROP_CAPTURABLE},
    {GM_PROMISE_IPC, GM_PROP_IPC},
    {GM_PROMISE_PEER, GM_PROP_PEER},
    {GM_PROMISE_RDMA, GM_PROP_RDMA},
};

uint32_t gm_resource_unkept(uint32_t properties) {
    uint32_t unkept = 0;
    for (size_t i = 0; i < sizeof kept_by / sizeof *kept_by; i++)
        if (kept_by[i].properties & ~properties)
            unkept |= kept_by[i].promise;
    return unkept;
}

bool gm_resource_keeps(uint32_t properties, const struct gm_request *request) {
    return !(request->promises & GM_PROMISES_HARD & gm_resource_unkept(properties));
}

uint32_t gm_resource_drops(uint32_t properties, const struct gm_request *request) {
    return request->promises & GM_PROMISES_SOFT & gm_resource_unkept(properties);
}
