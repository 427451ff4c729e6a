/* Kills the process at its n-th call that changes a file system, before the call is done or with half of it done; or lets
   that call and all later ones fail, as on a disk that is full or broken.

   gcc -shared -fPIC -O1 -o killshim.so killshim.c -ldl;  LD_PRELOAD=./killshim.so python ...
   ctypes.CDLL("./killshim.so").arm(17, 1, 0): die at call 17 (from 0), half of the bytes written;  arm(-1, 0, 0): only count;
   arm(17, 1, 28): call 17 writes half of its bytes and says so, the later ones that need space fail with error 28 (ENOSPC);
   arm(17, 0, 5): call 17 and all later ones fail with error 5 (EIO).
   calls() tells how many there were, failures() how many of them failed, kinds() one letter for each:
     w write, p pwrite, s sendfile, t ftruncate, r rename, l link, u unlink, d rmdir, m mkdir, c chmod */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 100000, WHOLE = 0, HIT = 1, SHORT = 2 };
static long done = 0, fatal = -1, failed = 0;
static int half = 0, armed = 0, error = 0;
static char seen[MOST + 1];

void arm(long call, int torn, int number) { done = failed = 0; fatal = call; half = torn; error = number; armed = 1; }
long calls(void) { return done; }
long failures(void) { return failed; }
const char *kinds(void) { seen[done < MOST ? done : MOST] = 0; return seen; }

/* What is to become of this call. */
static int at(char kind) {
  if (!armed) return WHOLE;
  if (done < MOST) seen[done] = kind;
  long now = done++;
  if (fatal < 0 || now < fatal || (!error && now > fatal)) return WHOLE;
  if (error == ENOSPC && !strchr("wpstlm", kind)) return WHOLE; /* a full disk still renames and removes */
  if (error) failed++;
  return error && half && now == fatal && strchr("wp", kind) ? SHORT : HIT;
}
/* The end of a call that was hit: of the process, or an error. */
static int hit(void) {
  if (error) { errno = error; return -1; }
  kill(getpid(), SIGKILL);
  for (;;) pause();
}
static int is_file(int fd) { struct stat s; return fd > 2 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode); }

#define REAL(result, name, ...) ((result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))
#define ONE(kind, name, types, given, ...) \
  int name types { if (at(kind)) return hit(); return REAL(int, name, __VA_ARGS__) given; }

#define PWRITE(name) \
  ssize_t name(int fd, const void *bytes, size_t n, off_t where) { \
    int now = at('p'); \
    if (!now) return REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, bytes, n, where); \
    if (now == SHORT) return REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, bytes, (n + 1) / 2, where); \
    if (half && !error) REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, bytes, n / 2, where); \
    return hit(); }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *bytes, size_t n) {
  int now = is_file(fd) ? at('w') : WHOLE;
  if (!now) return REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, n);
  if (now == SHORT) return REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, (n + 1) / 2);
  if (half && !error) REAL(ssize_t, write, int, const void *, size_t)(fd, bytes, n / 2);
  return hit();
}

#define SENDFILE(name) \
  ssize_t name(int to, int from, off_t *where, size_t n) { \
    if (is_file(to) && at('s')) { \
      struct stat s; fstat(from, &s); \
      if (half) REAL(ssize_t, name, int, int, off_t *, size_t)(to, from, where, s.st_size / 2); \
      return hit(); } \
    return REAL(ssize_t, name, int, int, off_t *, size_t)(to, from, where, n); }
SENDFILE(sendfile)
SENDFILE(sendfile64)

typedef const char *path;
ONE('t', ftruncate, (int fd, off_t n), (fd, n), int, off_t)
ONE('t', ftruncate64, (int fd, off_t n), (fd, n), int, off_t)
ONE('r', rename, (path a, path b), (a, b), path, path)
ONE('r', renameat, (int c, path a, int d, path b), (c, a, d, b), int, path, int, path)
ONE('l', link, (path a, path b), (a, b), path, path)
ONE('l', linkat, (int c, path a, int d, path b, int f), (c, a, d, b, f), int, path, int, path, int)
ONE('u', unlink, (path a), (a), path)
ONE('u', unlinkat, (int c, path a, int f), (c, a, f), int, path, int)
ONE('d', rmdir, (path a), (a), path)
ONE('m', mkdir, (path a, mode_t m), (a, m), path, mode_t)
ONE('c', chmod, (path a, mode_t m), (a, m), path, mode_t)
