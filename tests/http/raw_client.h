// A client of a local port that says what it likes, byte by byte. No read of it waits for ever.
// Threads: belongs to one thread at a time.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace lightcone::server {

class RawClient {
 public:
  RawClient() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval wait{60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  }
  explicit RawClient(int port) : RawClient() { Connect(port); }
  ~RawClient() { close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void Connect(int port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>(port));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  }

  // False when the server has hung up.
  bool Send(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  void EndSending() { shutdown(fd_, SHUT_WR); }

  // 0 or 1: which of the two has something to read, which it waits for.
  static int AnsweredOf(const RawClient& first, const RawClient& second) {
    pollfd both[] = {{first.fd_, POLLIN, 0}, {second.fd_, POLLIN, 0}};
    EXPECT_GT(poll(both, 2, 60'000), 0);
    return both[0].revents != 0 ? 0 : 1;
  }

  // Up to the server's end of the connection.
  std::string Read() {
    while (Receive()) {
    }
    return std::exchange(got_, {});
  }

  // The next answer, and none of the one behind it. Empty when the server hangs up before its end.
  std::string ReadAnswer(bool has_body = true) {
    for (;;) {
      const size_t head = got_.find("\r\n\r\n");
      if (head != std::string::npos) {
        const size_t length = got_.find("Content-Length: ");
        const size_t body = has_body && length < head ? std::stoul(got_.substr(length + 16, 20)) : 0;
        if (got_.size() >= head + 4 + body) {
          std::string answer = got_.substr(0, head + 4 + body);
          got_.erase(0, answer.size());
          return answer;
        }
      }
      if (!Receive()) return "";
    }
  }

 private:
  bool Receive() {
    char bytes[16 << 10];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got > 0) got_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  const int fd_;
  std::string got_;
};

}  // namespace lightcone::server
