/* Loads, streams, cancels and frees again and again: memory stays where it was. Arguments: a model, and how often. */
#include "lamina.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that the process holds. */
static long held(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (!file || fscanf(file, "%*s %ld", &pages) != 1) exit(2);
    fclose(file);
    return pages * 4096;
}

static void once(const char *path) {
    LaminaModel *model = NULL;
    LaminaRequest *request = NULL;
    const char *json = "{\"prompt\": \"The cat\", \"ignore_eos\": true, \"max_tokens\": 100}";
    if (lamina_model_load(path, "{\"context\": 256, \"threads\": 1}", NULL, NULL, &model, NULL)) exit(3);
    if (lamina_submit(model, json, &request, NULL)) exit(4);
    LaminaEvent event = {.size = sizeof event};
    int events = 0;
    while (lamina_request_next(request, -1, &event, NULL) == LAMINA_STATUS_OK)
        if (++events == 5) lamina_request_cancel(request);
    if (events < 5 || strcmp(event.finish, "cancelled")) exit(5);
    lamina_model_free(model);
    lamina_request_free(request);
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 1000;
    long warm = 0;
    for (int i = 0; i < rounds; i++) {
        once(argv[1]);
        /* Allocators keep what the first rounds took. */
        if (i == rounds / 5) warm = held();
    }
    long now = held();
    printf("%d rounds: %ld KB after a fifth of them, %ld KB at the end\n", rounds, warm >> 10, now >> 10);
    return now > warm + (4 << 20);
}
