/* Sees every call that changes files below one folder, writes it to a log, and lets one of them fail.

Loaded by LD_PRELOAD, so that what FFmpeg, pyarrow and Rerun do is seen too. Nothing happens until
faults_arm is called. Not seen: stores into mapped files, and the buffered writes of stdio. That nothing
else is missed is tested: replayed, the log gives the folder that the process left.

A record of the log is: u8 operation, u8 outcome, u16 length of the first path, u16 of the second,
u16 reserved, u64 inode, i64 offset, u64 length of the data; then the two paths and the data. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum operation { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, LINK, SYMLINK, SYNC, NOTE, GROW };
enum kind { NOTHING, KILL, TORN, FAIL_IO, FAIL_FULL, SHORT, FULL_FROM, FAIL_IO_FROM, INTERRUPT };

static char folder[PATH_MAX];
static size_t folder_length;
static int log_handle = -1;
static long when, count;
static int kind;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

/* ---- which files are watched */

static int below(const char *path) {
    return folder_length && !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

static int path_of_handle(int handle, char *path) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/';
}

static int watched_handle(int handle, char *path) {
    if (!folder_length) return 0;
    int before = errno, found = path_of_handle(handle, path) && below(path);
    errno = before;
    return found;
}

/* Make a path absolute, its folder resolved, and say whether it is watched. */
static int watched_path(int directory, const char *given, char *path) {
    if (!folder_length || !given) return 0;
    int before = errno, found = 0;
    char joined[2 * PATH_MAX], parent[PATH_MAX];
    if (given[0] == '/') snprintf(joined, sizeof joined, "%s", given);
    else {
        char base[PATH_MAX];
        if (directory == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of_handle(directory, base)) goto out;
        snprintf(joined, sizeof joined, "%s/%s", base, given);
    }
    size_t length = strlen(joined);
    while (length > 1 && joined[length - 1] == '/') joined[--length] = 0;
    char *slash = strrchr(joined, '/');
    *slash = 0;
    if (!realpath(joined[0] ? joined : "/", parent)) goto out;
    snprintf(path, PATH_MAX, "%s/%s", parent, slash + 1);
    found = below(path);
out:
    errno = before;
    return found;
}

static int exists(const char *path) {
    struct stat about;
    int before = errno, found = !lstat(path, &about);
    errno = before;
    return found;
}

static uint64_t inode_of(int handle) {
    struct stat about;
    return fstat(handle, &about) ? 0 : about.st_ino;
}

/* ---- the log */

static void append(int operation, int ok, const char *first, const char *second, uint64_t inode, int64_t offset, const void *data, size_t length) {
    if (log_handle < 0) return;
    int before = errno;
    struct { uint8_t operation, ok; uint16_t first, second, reserved; uint64_t inode; int64_t offset; uint64_t length; } head =
        {operation, ok, strlen(first), strlen(second), 0, inode, offset, length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)first, head.first}, {(void *)second, head.second}, {(void *)data, length}};
    if (REAL(writev)(log_handle, parts, 4) < 0) abort();
    errno = before;
}

/* ---- what happens to a call: 0 it is made, 1 it fails, 2 half of it is made */

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

static int grows(int operation) {
    return operation == CREATE || operation == WRITE || operation == MKDIR || operation == LINK || operation == SYMLINK || operation == GROW;
}

static int fate(int operation) {
    count++;
    if (!when || count < when) return 0;
    if (kind == FAIL_IO_FROM) { errno = EIO; return 1; }
    if (kind == FULL_FROM) { if (!grows(operation)) return 0; errno = ENOSPC; return 1; }
    if (count > when) return 0;
    switch (kind) {
        case KILL: die(); break;
        case TORN: if (operation != WRITE) die(); return 2;
        case FAIL_IO: errno = EIO; return 1;
        case FAIL_FULL: errno = grows(operation) ? ENOSPC : EIO; return 1;
        case SHORT: return operation == WRITE ? 2 : 0;
        case INTERRUPT: kill(getpid(), SIGINT); break;
    }
    return 0;
}

/* ---- control, called by ctypes */

void faults_arm(const char *below_folder, const char *log_path, int which, long number) {
    folder_length = 0;
    snprintf(folder, sizeof folder, "%s", below_folder);
    if (log_handle >= 0) close(log_handle);
    log_handle = log_path[0] ? REAL(open)(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    kind = which, when = number, count = 0;
    folder_length = strlen(folder);
}

void faults_disarm(void) { folder_length = 0; }
long faults_count(void) { return count; }
void faults_note(const char *text) { pthread_mutex_lock(&turn); append(NOTE, 1, text, "", 0, 0, "", 0); pthread_mutex_unlock(&turn); }

static void new_child(void) { pthread_mutex_init(&turn, NULL); }
__attribute__((constructor)) static void prepare(void) { pthread_atfork(NULL, NULL, new_child); }

/* ---- calls by path */

#define BY_PATH(operation, directory, path, call) do { \
    char full[PATH_MAX]; \
    if (!watched_path(directory, path, full)) return call; \
    pthread_mutex_lock(&turn); \
    int result = fate(operation) ? -1 : call; \
    append(operation, result >= 0, full, "", 0, 0, "", 0); \
    pthread_mutex_unlock(&turn); \
    return result; } while (0)

#define BY_TWO_PATHS(operation, directory1, path1, directory2, path2, call) do { \
    char full1[PATH_MAX], full2[PATH_MAX]; \
    int watched1 = watched_path(directory1, path1, full1), watched2 = watched_path(directory2, path2, full2); \
    if (!watched1 && !watched2) return call; \
    pthread_mutex_lock(&turn); \
    int result = fate(operation) ? -1 : call; \
    append(operation, result >= 0, full1, full2, 0, 0, "", 0); \
    pthread_mutex_unlock(&turn); \
    return result; } while (0)

int unlink(const char *path) { BY_PATH(UNLINK, AT_FDCWD, path, REAL(unlink)(path)); }
int rmdir(const char *path) { BY_PATH(RMDIR, AT_FDCWD, path, REAL(rmdir)(path)); }
int mkdir(const char *path, mode_t mode) { BY_PATH(MKDIR, AT_FDCWD, path, REAL(mkdir)(path, mode)); }
int mkdirat(int directory, const char *path, mode_t mode) { BY_PATH(MKDIR, directory, path, REAL(mkdirat)(directory, path, mode)); }
int unlinkat(int directory, const char *path, int flags) { BY_PATH(flags & AT_REMOVEDIR ? RMDIR : UNLINK, directory, path, REAL(unlinkat)(directory, path, flags)); }
int remove(const char *path) {
    struct stat about;
    return !lstat(path, &about) && S_ISDIR(about.st_mode) ? rmdir(path) : unlink(path);
}
int rename(const char *from, const char *to) { BY_TWO_PATHS(RENAME, AT_FDCWD, from, AT_FDCWD, to, REAL(rename)(from, to)); }
int renameat(int directory1, const char *from, int directory2, const char *to) { BY_TWO_PATHS(RENAME, directory1, from, directory2, to, REAL(renameat)(directory1, from, directory2, to)); }
int renameat2(int directory1, const char *from, int directory2, const char *to, unsigned flags) { BY_TWO_PATHS(RENAME, directory1, from, directory2, to, REAL(renameat2)(directory1, from, directory2, to, flags)); }
int link(const char *from, const char *to) { BY_TWO_PATHS(LINK, AT_FDCWD, from, AT_FDCWD, to, REAL(link)(from, to)); }
int linkat(int directory1, const char *from, int directory2, const char *to, int flags) { BY_TWO_PATHS(LINK, directory1, from, directory2, to, REAL(linkat)(directory1, from, directory2, to, flags)); }
static int symlink_logged(const char *text, int directory, const char *path) {
    char full[PATH_MAX];
    if (!watched_path(directory, path, full)) return REAL(symlinkat)(text, directory, path);
    pthread_mutex_lock(&turn);
    int result = fate(SYMLINK) ? -1 : REAL(symlinkat)(text, directory, path);
    append(SYMLINK, result >= 0, full, text, 0, 0, "", 0);
    pthread_mutex_unlock(&turn);
    return result;
}
int symlink(const char *text, const char *path) { return symlink_logged(text, AT_FDCWD, path); }
int symlinkat(const char *text, int directory, const char *path) { return symlink_logged(text, directory, path); }

static int logged_truncate(const char *full, uint64_t inode, int64_t length, int result) {
    append(TRUNCATE, result >= 0, full, "", inode, length, "", 0);
    return result;
}
int truncate(const char *path, off_t length) {
    char full[PATH_MAX];
    if (!watched_path(AT_FDCWD, path, full)) return REAL(truncate)(path, length);
    struct stat about;
    pthread_mutex_lock(&turn);
    int result = fate(TRUNCATE) ? -1 : REAL(truncate)(path, length);
    logged_truncate(full, stat(path, &about) ? 0 : about.st_ino, length, result);
    pthread_mutex_unlock(&turn);
    return result;
}
int truncate64(const char *path, off_t length) { return truncate(path, length); }

/* ---- opening */

static int open_logged(int directory, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    int changes = (flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE && watched_path(directory, path, full);
    int is_new = changes && !exists(full);
    if (!changes || (!is_new && !(flags & O_TRUNC))) return REAL(openat)(directory, path, flags, mode);
    pthread_mutex_lock(&turn);
    int result = fate(CREATE) ? -1 : REAL(openat)(directory, path, flags, mode);
    if (is_new) append(CREATE, result >= 0, full, "", result < 0 ? 0 : inode_of(result), 0, "", 0);
    else logged_truncate(full, result < 0 ? 0 : inode_of(result), 0, result);
    pthread_mutex_unlock(&turn);
    return result;
}

#define MODE(flags) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, int); va_end(more); }
int open(const char *path, int flags, ...) { MODE(flags) return open_logged(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_logged(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE(flags) return open_logged(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE(flags) return open_logged(directory, path, flags | O_LARGEFILE, mode); }
int __open_2(const char *path, int flags) { return open_logged(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_logged(AT_FDCWD, path, flags, 0); }
int __openat_2(int directory, const char *path, int flags) { return open_logged(directory, path, flags, 0); }
int __openat64_2(int directory, const char *path, int flags) { return open_logged(directory, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_logged(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* ---- calls by handle */

static int64_t place_of(int handle, off_t offset, int64_t length) {
    if (offset >= 0) return offset;
    int flags = fcntl(handle, F_GETFL);
    off_t here = lseek(handle, 0, SEEK_CUR);
    struct stat about;
    if (flags & O_APPEND && !fstat(handle, &about)) return about.st_size - length;
    return here - length;
}

static void logged_data(int handle, const char *full, const char *data, off_t offset, ssize_t written) {
    int before = errno;
    if (written > 0) append(WRITE, 1, full, "", inode_of(handle), place_of(handle, offset, written), data, written);
    errno = before;
}

static ssize_t write_logged(int handle, const char *full, const void *data, size_t length, off_t offset) {
    pthread_mutex_lock(&turn);
    int what = fate(WRITE);
    size_t wanted = what == 2 ? length / 2 : length;
    ssize_t result = what == 1 ? -1 : offset < 0 ? REAL(write)(handle, data, wanted) : REAL(pwrite64)(handle, data, wanted, offset);
    logged_data(handle, full, data, offset, result);
    if (what == 2 && kind == TORN) die();
    pthread_mutex_unlock(&turn);
    return result;
}

ssize_t write(int handle, const void *data, size_t length) {
    char full[PATH_MAX];
    return handle != log_handle && watched_handle(handle, full) ? write_logged(handle, full, data, length, -1) : REAL(write)(handle, data, length);
}
ssize_t pwrite64(int handle, const void *data, size_t length, off_t offset) {
    char full[PATH_MAX];
    return watched_handle(handle, full) ? write_logged(handle, full, data, length, offset) : REAL(pwrite64)(handle, data, length, offset);
}
ssize_t pwrite(int handle, const void *data, size_t length, off_t offset) { return pwrite64(handle, data, length, offset); }

static ssize_t writev_logged(int handle, const char *full, const struct iovec *parts, int several, off_t offset) {
    size_t length = 0, done = 0;
    for (int i = 0; i < several; i++) length += parts[i].iov_len;
    char *joined = malloc(length + 1);
    for (int i = 0; i < several; i++) memcpy(joined + done, parts[i].iov_base, parts[i].iov_len), done += parts[i].iov_len;
    ssize_t result = write_logged(handle, full, joined, length, offset);
    int before = errno;
    free(joined);
    errno = before;
    return result;
}
ssize_t writev(int handle, const struct iovec *parts, int several) {
    char full[PATH_MAX];
    return handle != log_handle && watched_handle(handle, full) ? writev_logged(handle, full, parts, several, -1) : REAL(writev)(handle, parts, several);
}
ssize_t pwritev(int handle, const struct iovec *parts, int several, off_t offset) {
    char full[PATH_MAX];
    return watched_handle(handle, full) ? writev_logged(handle, full, parts, several, offset) : REAL(pwritev)(handle, parts, several, offset);
}
ssize_t pwritev64(int handle, const struct iovec *parts, int several, off_t offset) { return pwritev(handle, parts, several, offset); }

#define BY_HANDLE(operation, number, call) do { \
    char full[PATH_MAX]; \
    if (!watched_handle(handle, full)) return call; \
    pthread_mutex_lock(&turn); \
    int result = fate(operation) ? -1 : call; \
    append(operation, result >= 0, full, "", inode_of(handle), number, "", 0); \
    pthread_mutex_unlock(&turn); \
    return result; } while (0)

int ftruncate64(int handle, off_t length) { BY_HANDLE(TRUNCATE, length, REAL(ftruncate64)(handle, length)); }
int ftruncate(int handle, off_t length) { return ftruncate64(handle, length); }
/* What a sync is for cannot be seen by killing a process: it is logged, and not waited for. */
int fsync(int handle) { BY_HANDLE(SYNC, 0, folder_length ? 0 : REAL(fsync)(handle)); }
int fdatasync(int handle) { BY_HANDLE(SYNC, 0, folder_length ? 0 : REAL(fdatasync)(handle)); }
int fallocate64(int handle, int mode, off_t offset, off_t length) { BY_HANDLE(GROW, mode ? 0 : offset + length, REAL(fallocate64)(handle, mode, offset, length)); }
int fallocate(int handle, int mode, off_t offset, off_t length) { return fallocate64(handle, mode, offset, length); }
int posix_fallocate64(int handle, off_t offset, off_t length) { return fallocate64(handle, 0, offset, length) ? errno : 0; }
int posix_fallocate(int handle, off_t offset, off_t length) { return posix_fallocate64(handle, offset, length); }

/* Copies inside the kernel are refused, as some file systems do: the caller then writes. */
ssize_t copy_file_range(int from, off_t *at, int to, off_t *place, size_t length, unsigned flags) {
    char full[PATH_MAX];
    if (watched_handle(to, full)) { errno = EOPNOTSUPP; return -1; }
    return REAL(copy_file_range)(from, at, to, place, length, flags);
}
ssize_t sendfile64(int to, int from, off_t *at, size_t length) {
    char full[PATH_MAX];
    if (watched_handle(to, full)) { errno = ENOSYS; return -1; }
    return REAL(sendfile64)(to, from, at, length);
}
ssize_t sendfile(int to, int from, off_t *at, size_t length) { return sendfile64(to, from, at, length); }
