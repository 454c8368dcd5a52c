// One connection of the HTTP port: reads requests one after the other and writes their answers.
// Threads: belongs to the thread that serves every connection.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>

#include "server/http/http_limits.h"
#include "server/http/request_head.h"
#include "server/http/route_table.h"
#include "server/http/transport.h"

namespace lightcone::server {

// What a connection does now.
enum class Phase { kHandshake, kIdle, kHead, kBody, kHandling, kWriting, kLingering, kClosed };
constexpr size_t kPhases = 8;

class Connection;

// Whom a connection belongs to. Outlives it.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual const HttpLimits& limits() const = 0;
  // Whether connections close after the answer they are at.
  virtual bool ending() const = 0;
  // Bytes that any connection may use until it returns.
  virtual std::span<char> scratch() = 0;
  // The route of a request, which gets its caller and parameters. Or in `refusal` why it may use none.
  virtual const Route* RouteOf(HttpRequest* request, HttpAnswer* refusal) = 0;
  // Calls connection->Answer now, or later and then connection->Run.
  virtual void Handle(Connection* connection, const Route& route, HttpRequest request) = 0;
  // Takes a part of limits().held_bytes_max for a body. false: too much is held already.
  virtual bool HoldBody(size_t bytes) = 0;
  // The same for an answer, which takes its part: other answers that wait for their clients give way.
  virtual void HoldAnswer(const Connection& connection, size_t bytes) = 0;
  virtual void Release(size_t bytes) = 0;
  // The connection changed its phase; with kClosed it ends as soon as nothing uses it.
  virtual void RecordPhase(Connection* connection, Phase before) = 0;
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  // Owns `socket`, which must not block, and over which `transport` goes.
  Connection(uint64_t id, int socket, std::unique_ptr<Transport> transport, boost::asio::io_context* io,
             ConnectionOwner* owner);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  uint64_t id() const { return id_; }
  Phase phase() const { return phase_; }
  // Where the owner lists it.
  std::list<Connection*>::iterator place;

  // Call once, when the owner has listed it.
  void Start();
  // Reads and writes what is possible now, and comes back when more is.
  void Run();
  // REQUIRES: phase() is kHandling.
  void Answer(HttpAnswer answer);
  void Close();

 private:
  using Milliseconds = std::chrono::milliseconds;

  // Each returns false when it waits for the client, or is not at work any more.
  bool Step();
  bool ShakeHands();
  bool ReadHead();
  bool ReadBody();
  bool WriteAnswer();
  bool Discard();

  void BeginRequest(size_t head_bytes);
  void BeginBody();
  void Dispatch();
  void Refuse(HttpAnswer answer);
  void Send(const HttpAnswer& answer);
  void EndRequest();
  // Takes body bytes off the front of `bytes`. false: refused.
  bool TakeBody(std::string_view bytes);
  void SetPhase(Phase phase);
  void SetDeadline(Milliseconds wait);
  void OnDeadline();
  // Comes back when the socket is ready. false, so that steps return it.
  bool WaitFor(Moved want);

  const uint64_t id_;
  ConnectionOwner* const owner_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  std::chrono::steady_clock::time_point deadline_;
  const std::string peer_;  // "ipv4:10.0.0.7:5123"
  const std::unique_ptr<Transport> transport_;
  Phase phase_ = Phase::kHandshake;
  bool waiting_ = false;  // for the socket

  std::string in_;          // bytes that are read and belong to no request yet
  size_t searched_ = 0;     // bytes of in_ in which the head's end is not
  size_t blank_bytes_ = 0;  // of empty lines before the next request
  RequestHead head_;        // of the request that is read or answered
  const Route* route_ = nullptr;
  bool head_only_ = false;  // The method is HEAD.
  bool keep_ = false;       // The connection takes another request after the answer.
  std::string out_;         // answer
  size_t written_ = 0;      // bytes of out_
  size_t progressed_ = 0;   // bytes since the deadline was set
  size_t held_ = 0;         // bytes taken from the owner
};

}  // namespace lightcone::server
