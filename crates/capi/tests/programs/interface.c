/* All of the interface, as a program in C uses it. Arguments: a model, and a chat template. */
#include "lamina.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(what)                                                            \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);        \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

static char *error;

/* The call is refused, with a message that has `part` in it. */
static void refused(LaminaStatus status, LaminaStatus want, const char *part) {
    if (status != want || !error || !strstr(error, part)) {
        fprintf(stderr, "status %d, message %s, but wanted %d and %s\n", status, error ? error : "none", want, part);
        exit(1);
    }
    lamina_string_free(error);
    error = NULL;
}

static bool note_progress(float part, void *user) {
    *(float *)user = part;
    return true;
}

static bool give_up(float part, void *user) {
    (void)part, (void)user;
    return false;
}

static LaminaModel *load(const char *path, const char *options) {
    LaminaModel *model = NULL;
    LaminaStatus status = lamina_model_load(path, options, NULL, NULL, &model, &error);
    if (status != LAMINA_STATUS_OK) fprintf(stderr, "status %d: %s\n", status, error);
    MUST(model);
    return model;
}

static void loading_is_told_refused_and_given_up(const char *path) {
    LaminaModel *model = NULL;
    float part = -1;
    refused(lamina_model_load("/nowhere.gguf", NULL, NULL, NULL, &model, &error), LAMINA_STATUS_MODEL, "/nowhere.gguf");
    refused(lamina_model_load(path, "{\"contxt\": 1}", NULL, NULL, &model, &error), LAMINA_STATUS_INVALID_REQUEST, "context");
    refused(lamina_model_load(path, "[1]", NULL, NULL, &model, &error), LAMINA_STATUS_INVALID_REQUEST, "options");
    refused(lamina_model_load("\xff", NULL, NULL, NULL, &model, &error), LAMINA_STATUS_INVALID_REQUEST, "UTF-8");
    refused(lamina_model_load(path, NULL, NULL, NULL, NULL, &error), LAMINA_STATUS_INVALID_REQUEST, "out is NULL");
    MUST(lamina_model_load(path, NULL, give_up, NULL, &model, NULL) != LAMINA_STATUS_OK && !model);
    MUST(lamina_model_load(path, "{\"context\": 64, \"threads\": \"1\"}", note_progress, &part, &model, &error) == LAMINA_STATUS_OK);
    MUST(part == 1);
    char *info = lamina_model_info(model);
    MUST(info && strstr(info, "\"context\":64") && strstr(info, "\"threads\":1"));
    lamina_string_free(info);
    lamina_model_free(model);
}

static void handles_are_checked(const char *path) {
    LaminaModel *model = load(path, "{\"context\": 64, \"threads\": 1}"), *clone = lamina_model_clone(model);
    LaminaRequest *request = NULL;
    MUST(clone && clone != model);
    lamina_model_free(model);
    lamina_model_free(model);
    MUST(!lamina_model_info(model) && !lamina_model_clone(model));
    refused(lamina_submit(model, "{\"prompt\": \"x\"}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "freed");
    refused(lamina_submit(NULL, "{\"prompt\": \"x\"}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "NULL");
    refused(lamina_submit((LaminaModel *)&request, "{}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "no handle");
    MUST(lamina_submit(clone, "{\"prompt\": \"x\", \"max_tokens\": 1}", &request, &error) == LAMINA_STATUS_OK);
    LaminaEvent event = {0};
    refused(lamina_request_next(request, -1, &event, &error), LAMINA_STATUS_INVALID_REQUEST, "sizeof");
    refused(lamina_request_next(request, -1, NULL, &error), LAMINA_STATUS_INVALID_REQUEST, "event");
    refused(lamina_request_next((LaminaRequest *)clone, -1, &event, &error), LAMINA_STATUS_INVALID_REQUEST, "no handle");
    lamina_request_free(request);
    lamina_request_cancel(request);
    MUST(lamina_request_on_ready(request, NULL, NULL));
    lamina_request_free(NULL), lamina_model_free(NULL), lamina_string_free(NULL), lamina_request_cancel(NULL);
    lamina_model_free(clone);
}

static void tokens_go_both_ways(const LaminaModel *model) {
    const char *text = "Once upon a time";
    uint32_t ids[64], few[2] = {0, 7};
    size_t count = 0, fewer = 0, bytes = 0;
    MUST(lamina_tokenize(model, text, strlen(text), false, ids, 64, &count, &error) == LAMINA_STATUS_OK && count > 2);
    MUST(lamina_tokenize(model, text, strlen(text), false, few, 1, &fewer, &error) == LAMINA_STATUS_OK);
    MUST(fewer == count && few[0] == ids[0] && few[1] == 7);
    MUST(lamina_tokenize(model, NULL, 0, false, NULL, 0, &fewer, &error) == LAMINA_STATUS_OK && fewer == 0);
    char back[64] = "";
    MUST(lamina_detokenize(model, ids, count, back, sizeof back - 1, &bytes, &error) == LAMINA_STATUS_OK);
    MUST(strstr(back, "upon a time") && bytes == strlen(back));
    refused(lamina_tokenize(model, "\xff", 1, false, ids, 64, &count, &error), LAMINA_STATUS_INVALID_REQUEST, "UTF-8");
    refused(lamina_tokenize(model, NULL, 3, false, ids, 64, &count, &error), LAMINA_STATUS_INVALID_REQUEST, "text is NULL");
    refused(lamina_tokenize(model, text, 4, false, NULL, 4, &count, &error), LAMINA_STATUS_INVALID_REQUEST, "out is NULL");
    refused(lamina_tokenize(model, text, 4, false, ids, 64, NULL, &error), LAMINA_STATUS_INVALID_REQUEST, "count is NULL");
}

struct answer {
    char text[4096], finish[16];
    size_t tokens, logprobs;
    unsigned ends;
};

static struct answer ask(const LaminaModel *model, const char *json) {
    struct answer a = {0};
    LaminaRequest *request = NULL;
    LaminaStatus status = lamina_submit(model, json, &request, &error);
    if (status != LAMINA_STATUS_OK) fprintf(stderr, "status %d: %s\n", status, error);
    MUST(request);
    LaminaEvent event = {.size = sizeof event};
    while ((status = lamina_request_next(request, -1, &event, &error)) == LAMINA_STATUS_OK) {
        MUST(strlen(a.text) + event.text_len < sizeof a.text && strlen(event.text) == event.text_len);
        strcat(a.text, event.text);
        a.tokens += event.token_count;
        a.logprobs += event.logprobs ? event.token_count : 0;
        MUST((event.kind == LAMINA_EVENT_KIND_END) == (event.finish != NULL));
        if (event.finish) {
            a.ends++;
            strcpy(a.finish, event.finish);
            MUST(event.completion_tokens > 0 && event.prompt_tokens > 0 && strstr(event.details, "timings"));
        }
    }
    MUST(status == LAMINA_STATUS_END && lamina_request_next(request, 0, &event, &error) == LAMINA_STATUS_END);
    lamina_request_free(request);
    return a;
}

static void answers_have_the_fields_of_the_server(const LaminaModel *model) {
    LaminaRequest *request = NULL;
    const char *greedy = "{\"prompt\": \"Once upon a time\", \"max_tokens\": 24, \"temperature\": 0, \"logprobs\": 2}";
    struct answer a = ask(model, greedy), b = ask(model, greedy);
    MUST(a.tokens == 24 && a.logprobs == 24 && a.ends == 1 && !strcmp(a.finish, "length") && !strcmp(a.text, b.text));
    MUST(ask(model, "{\"prompt\": \"The cat\", \"n\": 3, \"seed\": 1, \"max_tokens\": 4}").ends == 3);
    a = ask(model, "{\"prompt\": \"The answer is\", \"guided_choice\": [\"yes\", \"no\"]}");
    MUST((!strcmp(a.text, "yes") || !strcmp(a.text, "no")) && !strcmp(a.finish, "stop"));
    a = ask(model, "{\"messages\": [{\"role\": \"user\", \"content\": \"A cat.\"}], \"max_tokens\": 8, \"seed\": 3}");
    MUST(a.ends == 1);
    refused(lamina_submit(model, "{\"prompt\": \"x\", \"temprature\": 1}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "temperature");
    refused(lamina_submit(model, "{\"prompt\": \"x\", \"lora\": {\"no\": 1}}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "adapter");
    refused(lamina_submit(model, "{\"prompt\": ", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "request");
    refused(lamina_submit(model, "{}", &request, &error), LAMINA_STATUS_INVALID_REQUEST, "prompt");
    refused(lamina_submit(model, NULL, &request, &error), LAMINA_STATUS_INVALID_REQUEST, "NULL");
    char *prompt = NULL;
    MUST(lamina_chat_prompt(model, "{\"messages\": [{\"role\": \"user\", \"content\": \"A cat.\"}]}", &prompt, &error) == LAMINA_STATUS_OK);
    MUST(!strcmp(prompt, "user: A cat.\n"));
    lamina_string_free(prompt);
    refused(lamina_chat_prompt(model, "{}", &prompt, &error), LAMINA_STATUS_INVALID_REQUEST, "messages");
}

struct loop {
    pthread_mutex_t lock;
    pthread_cond_t posted;
    int rung;
};

static void ring(void *user) {
    struct loop *loop = user;
    pthread_mutex_lock(&loop->lock);
    loop->rung++;
    pthread_cond_signal(&loop->posted);
    pthread_mutex_unlock(&loop->lock);
}

static void *cancel(void *request) {
    lamina_request_cancel(request);
    return NULL;
}

/* Never waits inside Lamina, loses its model at once, and is cancelled by another thread. */
static void an_event_loop_reads_by_a_bell(const char *path) {
    LaminaModel *model = load(path, "{\"context\": 512, \"threads\": 1}");
    LaminaRequest *request = NULL;
    const char *json = "{\"prompt\": \"The cat\", \"ignore_eos\": true, \"max_tokens\": 400}";
    MUST(lamina_submit(model, json, &request, &error) == LAMINA_STATUS_OK);
    lamina_model_free(model);
    struct loop loop = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    LaminaEvent event = {.size = sizeof event};
    pthread_t other;
    int events = 0, waits = 0;
    do {
        int before = loop.rung;
        if (!lamina_request_on_ready(request, ring, &loop)) {
            pthread_mutex_lock(&loop.lock);
            while (loop.rung == before) pthread_cond_wait(&loop.posted, &loop.lock);
            pthread_mutex_unlock(&loop.lock);
            waits++;
        }
        LaminaStatus status = lamina_request_next(request, 0, &event, &error);
        if (status == LAMINA_STATUS_TIMEOUT) continue;
        MUST(status == LAMINA_STATUS_OK);
        if (++events == 10) MUST(!pthread_create(&other, NULL, cancel, request));
    } while (event.kind != LAMINA_EVENT_KIND_END || events == 0);
    pthread_join(other, NULL);
    MUST(waits > 0 && loop.rung == waits && !strcmp(event.finish, "cancelled"));
    lamina_request_free(request);
}

static bool collect(const char *bytes, size_t count, void *user) {
    strncat(user, bytes, count);
    return strlen(user) < 60000;
}

static void rows_and_endpoints_are_there(const LaminaModel *model) {
    static char response[65536];
    float row[4096];
    size_t count = 0;
    LaminaStatus status = lamina_embed(model, "A cat", 5, row, 4096, &count, &error);
    MUST(status == LAMINA_STATUS_OK && count > 0 && count <= 4096);
    const char *documents[] = {"a", "b"};
    refused(lamina_rerank(model, "a", documents, 2, row, &error), LAMINA_STATUS_UNSUPPORTED, "rerank");
    MUST(lamina_call(model, "GET /v1/models", NULL, collect, response, &error) == LAMINA_STATUS_OK);
    MUST(strstr(response, "lamina-tiny"));
    response[0] = 0;
    const char *body = "{\"prompt\": \"A cat\", \"stream\": true, \"max_tokens\": 3}";
    MUST(lamina_call(model, "/v1/completions", body, collect, response, &error) == LAMINA_STATUS_OK);
    MUST(strstr(response, "data: [DONE]"));
    refused(lamina_call(model, "/v1/nothing", "{}", collect, response, &error), LAMINA_STATUS_INVALID_REQUEST, "nothing at this path");
    refused(lamina_call(model, "/v1/models", NULL, NULL, NULL, &error), LAMINA_STATUS_INVALID_REQUEST, "sink");
}

int main(int argc, char **argv) {
    MUST(argc == 3 && lamina_abi_version() >> 16 == 1 && strchr(lamina_version(), '.'));
    char options[4096];
    snprintf(options, sizeof options, "{\"context\": 256, \"threads\": 1, \"chat_template\": \"%s\"}", argv[2]);
    loading_is_told_refused_and_given_up(argv[1]);
    handles_are_checked(argv[1]);
    LaminaModel *model = load(argv[1], options);
    tokens_go_both_ways(model);
    answers_have_the_fields_of_the_server(model);
    rows_and_endpoints_are_there(model);
    lamina_model_free(model);
    an_event_loop_reads_by_a_bell(argv[1]);
    MUST(!error);
    puts("ok");
}
