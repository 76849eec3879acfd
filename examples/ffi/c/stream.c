/* cc stream.c $(pkg-config --cflags --libs lamina) -o stream && ./stream model.gguf "Once upon a time" */
#include <lamina.h>
#include <stdio.h>
#include <stdlib.h>

static void check(LaminaStatus status, char **error) {
    if (status < LAMINA_STATUS_MODEL) return;
    fprintf(stderr, "%s\n", *error ? *error : "an error of Lamina");
    lamina_string_free(*error);
    exit(1);
}

int main(int argc, char **argv) {
    LaminaModel *model = NULL;
    LaminaRequest *request = NULL;
    char *error = NULL, json[4096];
    check(lamina_model_load(argc > 1 ? argv[1] : NULL, "{\"context\": 2048}", NULL, NULL, &model, &error), &error);
    /* A text with quotes in it has to be escaped: any library of JSON does that. */
    snprintf(json, sizeof json, "{\"prompt\": \"%s\", \"max_tokens\": 64}", argc > 2 ? argv[2] : "Once upon a time");
    check(lamina_submit(model, json, &request, &error), &error);
    lamina_model_free(model); /* the request keeps it */
    LaminaEvent event = {.size = sizeof event};
    LaminaStatus status;
    while ((status = lamina_request_next(request, -1, &event, &error)) == LAMINA_STATUS_OK) {
        fputs(event.text, stdout);
        fflush(stdout);
        if (event.finish) printf("\n[%s, %u tokens]\n", event.finish, event.completion_tokens);
    }
    check(status, &error);
    lamina_request_free(request);
}
