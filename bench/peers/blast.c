/* A load generator for small requests: sends one prepared frame repeatedly over several connections.
 *
 *     blast PORT CONNECTIONS IN_FLIGHT REQUESTS ANSWER_BYTES < frame
 *
 * Prints the elapsed nanoseconds. Responses have a known size; they are counted by bytes and not parsed.
 * Requests that can be sent together are sent with one write.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FRAME_MAX = 1 << 20, CONNECTIONS_MAX = 1024, IN_FLIGHT_MAX = 1024, SCRATCH = 1 << 20 };

struct line {
    int socket;
    long to_send;   /* requests not sent yet */
    long to_answer; /* requests without a response yet */
    long surplus;   /* bytes of a partial response */
};

static char frame[FRAME_MAX], scratch[SCRATCH];
static char *train; /* IN_FLIGHT copies of the frame */
static struct line lines[CONNECTIONS_MAX];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void send_some(struct line *line, long count, size_t size) {
    if (count > line->to_send) count = line->to_send;
    size_t left = count * size;
    const char *next = train;
    while (left) {
        ssize_t sent = write(line->socket, next, left);
        if (sent <= 0) fail("write");
        next += sent;
        left -= sent;
    }
    line->to_send -= count;
}

static long answered(struct line *line, long answer_bytes) {
    ssize_t got = read(line->socket, scratch, SCRATCH);
    if (got <= 0) fail("read");
    line->surplus += got;
    long count = line->surplus / answer_bytes;
    line->surplus %= answer_bytes;
    line->to_answer -= count;
    return count;
}

static int connected(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1, made = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
}

int main(int count, char **arguments) {
    if (count != 6) return fprintf(stderr, "usage: blast PORT CONNECTIONS IN_FLIGHT REQUESTS ANSWER_BYTES\n"), 2;
    int port = atoi(arguments[1]), connections = atoi(arguments[2]), in_flight = atoi(arguments[3]);
    long requests = atol(arguments[4]), answer_bytes = atol(arguments[5]);
    size_t size = fread(frame, 1, FRAME_MAX, stdin);
    if (connections < 1 || connections > CONNECTIONS_MAX || in_flight < 1 || in_flight > IN_FLIGHT_MAX)
        return fprintf(stderr, "blast: too many connections or requests in flight\n"), 2;
    train = malloc(in_flight * size);
    for (int copy = 0; copy < in_flight; copy++) memcpy(train + copy * size, frame, size);
    int poll = epoll_create1(0);
    for (int number = 0; number < connections; number++) {
        struct line *line = &lines[number];
        line->socket = connected(port);
        line->to_send = line->to_answer = requests / connections;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, line->socket, &event)) fail("epoll_ctl");
    }
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int number = 0; number < connections; number++) send_some(&lines[number], in_flight, size);
    for (int open = connections; open;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 60000);
        if (ready <= 0) fail("no answer for a minute");
        for (int number = 0; number < ready; number++) {
            struct line *line = events[number].data.ptr;
            send_some(line, answered(line, answer_bytes), size);
            if (!line->to_answer) {
                epoll_ctl(poll, EPOLL_CTL_DEL, line->socket, NULL);
                open--;
            }
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
    return 0;
}
