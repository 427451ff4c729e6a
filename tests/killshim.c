/* Kills the process at its n-th call that changes a file system, before the call is done or with half of it done.

   gcc -shared -fPIC -O1 -o killshim.so killshim.c -ldl;  LD_PRELOAD=./killshim.so python ...
   ctypes.CDLL("./killshim.so").arm(17, 1): die at call 17 (from 0), half of the bytes written;  arm(-1, 0): only count.
   calls() tells how many there were, kinds() one letter for each:
     w write, p pwrite, s sendfile, t ftruncate, r rename, l link, u unlink, d rmdir, m mkdir, c chmod */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 100000 };
static long done = 0, fatal = -1;
static int half = 0, armed = 0;
static char seen[MOST + 1];

void arm(long call, int torn) { done = 0; fatal = call; half = torn; armed = 1; }
long calls(void) { return done; }
const char *kinds(void) { seen[done < MOST ? done : MOST] = 0; return seen; }

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }
static int at(char kind) {
  if (!armed) return 0;
  if (done < MOST) seen[done] = kind;
  return done++ == fatal;
}
static int is_file(int fd) { struct stat s; return fd > 2 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode); }

#define REAL(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define WHOLE(kind, name, types, given, ...) \
  int name types { if (at(kind)) die(); return REAL(int, name, __VA_ARGS__) given; }

#define PWRITE(name) \
  ssize_t name(int fd, const void *bytes, size_t n, off_t where) { \
    int now = at('p'); \
    if (!now) return REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, bytes, n, where); \
    if (half) REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, bytes, n / 2, where); \
    die(); return -1; }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *bytes, size_t n) {
  int now = is_file(fd) && at('w');
  if (!now) return REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, n);
  if (half) REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, n / 2);
  die(); return -1;
}

#define SENDFILE(name) \
  ssize_t name(int to, int from, off_t *where, size_t n) { \
    if (is_file(to) && at('s')) { \
      struct stat s; fstat(from, &s); \
      if (half) REAL(ssize_t, name, int, int, off_t *, size_t)(to, from, where, s.st_size / 2); \
      die(); } \
    return REAL(ssize_t, name, int, int, off_t *, size_t)(to, from, where, n); }
SENDFILE(sendfile)
SENDFILE(sendfile64)

typedef const char *path;
WHOLE('t', ftruncate, (int fd, off_t n), (fd, n), int, off_t)
WHOLE('t', ftruncate64, (int fd, off_t n), (fd, n), int, off_t)
WHOLE('r', rename, (path a, path b), (a, b), path, path)
WHOLE('r', renameat, (int c, path a, int d, path b), (c, a, d, b), int, path, int, path)
WHOLE('l', link, (path a, path b), (a, b), path, path)
WHOLE('l', linkat, (int c, path a, int d, path b, int f), (c, a, d, b, f), int, path, int, path, int)
WHOLE('u', unlink, (path a), (a), path)
WHOLE('u', unlinkat, (int c, path a, int f), (c, a, f), int, path, int)
WHOLE('d', rmdir, (path a), (a), path)
WHOLE('m', mkdir, (path a, mode_t m), (a, m), path, mode_t)
WHOLE('c', chmod, (path a, mode_t m), (a, m), path, mode_t)
