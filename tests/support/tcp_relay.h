// A relay on loopback between a client and a server that can fall silent, as a host does that loses its power: its
// connections stay open and nothing passes any more.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace lightcone {

// Serves one connection after another's acceptance, each by two threads. Threads: FallSilent is safe from any.
class TcpRelay {
 public:
  // `target` is 127.0.0.1:PORT.
  explicit TcpRelay(const std::string& target) : target_(Loopback(std::stoi(target.substr(target.rfind(':') + 1)))) {
    sockaddr_in any = Loopback(0);
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listening_, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(listen(listening_, 16), 0);
    socklen_t length = sizeof any;
    EXPECT_EQ(getsockname(listening_, reinterpret_cast<sockaddr*>(&any), &length), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
    accepting_ = std::thread([this] { Accept(); });
  }
  ~TcpRelay() {
    shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    for (const int one : sockets_) shutdown(one, SHUT_RDWR);
    for (std::thread& pump : pumps_) pump.join();
    for (const int one : sockets_) close(one);
    close(listening_);
  }
  TcpRelay(const TcpRelay&) = delete;
  TcpRelay& operator=(const TcpRelay&) = delete;

  const std::string& address() const { return address_; }
  void FallSilent() { silent_ = true; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  void Accept() {
    for (int near = 0; (near = accept(listening_, nullptr, nullptr)) >= 0;) {
      const int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      EXPECT_EQ(connect(far, reinterpret_cast<const sockaddr*>(&target_), sizeof target_), 0);
      sockets_.insert(sockets_.end(), {near, far});
      pumps_.emplace_back([this, near, far] { Pump(near, far); });
      pumps_.emplace_back([this, near, far] { Pump(far, near); });
    }
  }

  // What arrives after the silence began is read and lost; the end of a side is passed on before it only.
  void Pump(int from, int to) {
    char bytes[4096];
    for (ssize_t got = 0; (got = read(from, bytes, sizeof bytes)) > 0;) {
      for (ssize_t sent = 0; sent < got && !silent_;) {
        const ssize_t more = send(to, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
        if (more <= 0) return;
        sent += more;
      }
    }
    if (!silent_) shutdown(to, SHUT_WR);
  }

  const sockaddr_in target_;
  std::atomic<bool> silent_ = false;
  int listening_ = -1;
  std::string address_;
  std::thread accepting_;
  std::vector<int> sockets_;        // of the accepting thread until it has ended
  std::vector<std::thread> pumps_;  // likewise
};

}  // namespace lightcone
