// What the libraries share that tests preload into processes (LD_PRELOAD): the functions that they stand before, and
// the paths of the files that a call is about. Header only, so that such a library links nothing of ours.
// Threads: all functions are safe to call concurrently.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace lightcone {

// The function of this name that the library stands before.
template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Absolute, as the kernel tells it; empty for a descriptor that is not open.
inline std::string PathOfFd(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t n = ::readlink(link, path, sizeof(path));
  return n <= 0 ? std::string() : std::string(path, static_cast<size_t>(n));
}

// Of a path that a call names in the folder `folder`, a descriptor or AT_FDCWD. Links are not resolved.
inline std::string PathAt(int folder, const char* path) {
  if (path == nullptr) return "";
  if (path[0] == '/') return path;
  if (folder != AT_FDCWD) return PathOfFd(folder) + "/" + path;
  char here[4096];
  return ::getcwd(here, sizeof(here)) == nullptr ? std::string() : std::string(here) + "/" + path;
}

// Whether the path is the folder or below it. No path is in a folder without a name.
inline bool IsWithin(const std::string& path, const std::string& folder) {
  return !folder.empty() && path.compare(0, folder.size(), folder) == 0 &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

// The third argument of an open; 0 where the call has none.
inline mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace lightcone
