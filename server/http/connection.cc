#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <utility>

#include "base/dcheck.h"
#include "base/strings.h"
#include "server/http/peer.h"

namespace lightcone::server {
namespace {

constexpr size_t kBlankBytesMax = 64;  // of empty lines between two requests

using Clock = std::chrono::steady_clock;

constexpr int kStepsMax = 16;  // steps of one connection before the others have their turn
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string HeadOf(const HttpAnswer& answer, bool keep, bool http_1_0) {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(answer.status));
  std::string head = StrCat("HTTP/1.1 ", answer.status, " ", std::string_view(reason.data(), reason.size()), "\r\n");
  for (const auto& [name, value] : answer.headers) head += StrCat(name, ": ", value, "\r\n");
  head += StrCat("Content-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(), "\r\n");
  if (!keep) head += "Connection: close\r\n";
  if (keep && http_1_0) head += "Connection: keep-alive\r\n";
  return head + "\r\n";
}

}  // namespace

Connection::Connection(uint64_t id, int socket, std::unique_ptr<Transport> transport, boost::asio::io_context* io,
                       ConnectionOwner* owner)
    : id_(id),
      owner_(owner),
      socket_(*io, socket),
      timer_(*io),
      peer_(PeerOf(socket)),
      transport_(std::move(transport)) {}

void Connection::Start() {
  SetDeadline(owner_->limits().handshake);
  Run();
}

void Connection::Run() {
  for (int i = 0; i < kStepsMax; ++i) {
    if (!Step()) return;
  }
  boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Run(); });
}

bool Connection::Step() {
  switch (phase_) {
    case Phase::kHandshake:
      return ShakeHands();
    case Phase::kIdle:
    case Phase::kHead:
      return ReadHead();
    case Phase::kBody:
      return ReadBody();
    case Phase::kWriting:
      return WriteAnswer();
    case Phase::kLingering:
      return Discard();
    case Phase::kHandling:
    case Phase::kClosed:
      break;
  }
  return false;
}

bool Connection::ShakeHands() {
  const Moved how = transport_->ShakeHands();
  if (how == Moved::kWantRead || how == Moved::kWantWrite) return WaitFor(how);
  if (how != Moved::kBytes) {
    Close();
    return false;
  }
  SetPhase(Phase::kIdle);
  SetDeadline(owner_->limits().idle);
  return true;
}

bool Connection::ReadHead() {
  // Empty lines before a request are allowed.
  size_t blank = 0;
  while (in_.compare(blank, 2, "\r\n") == 0) blank += 2;
  in_.erase(0, blank);
  blank_bytes_ += blank;
  if (blank_bytes_ > kBlankBytesMax) {
    Close();
    return false;
  }
  if (phase_ == Phase::kIdle && !in_.empty()) {
    SetPhase(Phase::kHead);
    SetDeadline(owner_->limits().head);
  }
  const size_t end = in_.find(kHeadEnd, searched_);
  if (end != std::string::npos) {
    BeginRequest(end + kHeadEnd.size());
    return true;
  }
  searched_ = in_.size() < kHeadEnd.size() ? 0 : in_.size() - kHeadEnd.size() + 1;
  const size_t max = owner_->limits().head_bytes_max;
  if (in_.size() >= max) {
    if (in_.find("\r\n") == std::string::npos) {
      Refuse(RefusalOf(414, StrCat("the path and the query have more than ", max, " bytes")));
    } else {
      Refuse(RefusalOf(431, StrCat("the head has more than ", max, " bytes")));
    }
    return true;
  }
  const std::span<char> scratch = owner_->scratch();
  const Transfer got = transport_->Read(scratch.data(), std::min(scratch.size(), max - in_.size()));
  switch (got.how) {
    case Moved::kBytes:
      in_.append(scratch.data(), got.bytes);
      return true;
    case Moved::kWantRead:
    case Moved::kWantWrite:
      return WaitFor(got.how);
    case Moved::kEnd:
      if (in_.empty()) break;
      Refuse(RefusalOf(400, "the connection ended within the head of a request"));
      return true;
    case Moved::kBroken:
      break;
  }
  Close();
  return false;
}

void Connection::BeginRequest(size_t head_bytes) {
  head_ = ParseRequestHead(std::string_view(in_).substr(0, head_bytes));
  in_.erase(0, head_bytes);
  searched_ = blank_bytes_ = 0;
  keep_ = head_.keep_alive;
  head_only_ = head_.request.method == "HEAD";
  if (head_.refusal != 0) return Refuse(RefusalOf(head_.refusal, std::move(head_.reason)));
  head_.request.peer = peer_;
  head_.request.certificates = transport_->ClientNames();
  HttpAnswer refusal;
  route_ = owner_->RouteOf(&head_.request, &refusal);
  if (route_ == nullptr) {
    if (head_.body_bytes > 0) return Refuse(std::move(refusal));
    SetPhase(Phase::kHandling);
    return Answer(std::move(refusal));
  }
  if (head_.body_bytes > route_->body_bytes_max) {
    return Refuse(
        RefusalOf(413, StrCat("Content-Length is ", head_.body_bytes, ", allowed: 0 .. ", route_->body_bytes_max)));
  }
  if (head_.body_bytes == 0) return Dispatch();
  BeginBody();
}

void Connection::BeginBody() {
  SetPhase(Phase::kBody);
  progressed_ = 0;
  SetDeadline(owner_->limits().progress);
  // What the client has not read yet from earlier answers is little, because each answer was written in whole.
  if (head_.waits_for_leave && in_.empty() &&
      transport_->Write(kContinue.data(), kContinue.size()).bytes != kContinue.size()) {
    return Close();
  }
  std::string before = std::exchange(in_, {});
  const size_t ours = static_cast<size_t>(std::min<uint64_t>(before.size(), head_.body_bytes));
  if (!TakeBody(std::string_view(before).substr(0, ours))) return;
  in_ = before.substr(ours);
}

bool Connection::TakeBody(std::string_view bytes) {
  if (!owner_->HoldBody(bytes.size())) {
    HttpAnswer refusal = RefusalOf(503, "the server holds as many bytes of requests and answers as it may; try again");
    refusal.headers = {{"Retry-After", "1"}};
    Refuse(std::move(refusal));
    return false;
  }
  held_ += bytes.size();
  head_.request.body.append(bytes);
  progressed_ += bytes.size();
  if (progressed_ >= owner_->limits().progress_bytes) {
    progressed_ = 0;
    SetDeadline(owner_->limits().progress);
  }
  return true;
}

bool Connection::ReadBody() {
  const size_t left = static_cast<size_t>(head_.body_bytes) - head_.request.body.size();
  if (left == 0) {
    Dispatch();
    return true;
  }
  const std::span<char> scratch = owner_->scratch();
  const Transfer got = transport_->Read(scratch.data(), std::min(scratch.size(), left));
  switch (got.how) {
    case Moved::kBytes:
      TakeBody({scratch.data(), got.bytes});
      return true;
    case Moved::kWantRead:
    case Moved::kWantWrite:
      return WaitFor(got.how);
    case Moved::kEnd:
      Refuse(RefusalOf(400, StrCat("the connection ended after ", head_.request.body.size(), " of ", head_.body_bytes,
                                   " bytes of a body")));
      return true;
    case Moved::kBroken:
      break;
  }
  Close();
  return false;
}

void Connection::Dispatch() {
  timer_.cancel();
  SetPhase(Phase::kHandling);
  owner_->Handle(this, *route_, std::move(head_.request));
}

// The rest of what the client sends cannot be told from a next request.
void Connection::Refuse(HttpAnswer answer) {
  keep_ = false;
  Send(answer);
}

void Connection::Answer(HttpAnswer answer) {
  LC_DCHECK(phase_ == Phase::kHandling);
  if (owner_->ending()) keep_ = false;
  Send(answer);
}

void Connection::Send(const HttpAnswer& answer) {
  out_ = HeadOf(answer, keep_, head_.http_1_0);
  if (!head_only_) out_ += answer.body;
  written_ = progressed_ = 0;
  owner_->Release(std::exchange(held_, out_.size()));
  owner_->HoldAnswer(*this, out_.size());
  SetPhase(Phase::kWriting);
  SetDeadline(owner_->limits().progress);
}

bool Connection::WriteAnswer() {
  if (written_ == out_.size()) {
    EndRequest();
    return true;
  }
  const Transfer sent = transport_->Write(out_.data() + written_, out_.size() - written_);
  switch (sent.how) {
    case Moved::kBytes:
      written_ += sent.bytes;
      progressed_ += sent.bytes;
      if (progressed_ >= owner_->limits().progress_bytes) {
        progressed_ = 0;
        SetDeadline(owner_->limits().progress);
      }
      return true;
    case Moved::kWantRead:
    case Moved::kWantWrite:
      return WaitFor(sent.how);
    case Moved::kEnd:
    case Moved::kBroken:
      break;
  }
  Close();
  return false;
}

void Connection::EndRequest() {
  owner_->Release(std::exchange(held_, 0));
  out_ = {};
  head_ = {};
  head_only_ = false;
  if (keep_ && !owner_->ending()) {
    SetPhase(Phase::kIdle);
    SetDeadline(owner_->limits().idle);
    return;
  }
  // To close over unread bytes would reset the connection, and the client might not see the answer.
  transport_->EndSending();
  progressed_ = 0;
  SetPhase(Phase::kLingering);
  SetDeadline(owner_->limits().linger);
}

bool Connection::Discard() {
  const std::span<char> scratch = owner_->scratch();
  const Transfer got = transport_->Read(scratch.data(), scratch.size());
  progressed_ += got.bytes;
  if (got.how == Moved::kBytes && progressed_ <= owner_->limits().linger_bytes_max) return true;
  if (got.how == Moved::kWantRead || got.how == Moved::kWantWrite) return WaitFor(got.how);
  Close();
  return false;
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  owner_->Release(std::exchange(held_, 0));
  boost::system::error_code ignored;
  timer_.cancel();
  socket_.close(ignored);
  SetPhase(Phase::kClosed);
}

void Connection::SetPhase(Phase phase) {
  const Phase before = std::exchange(phase_, phase);
  owner_->RecordPhase(this, before);
}

void Connection::SetDeadline(Milliseconds wait) {
  deadline_ = Clock::now() + wait;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const std::shared_ptr<Connection> self = weak.lock();
    if (!error && self != nullptr) self->OnDeadline();
  });
}

void Connection::OnDeadline() {
  if (Clock::now() < deadline_) return;  // The deadline has moved since.
  const auto seconds = [](Milliseconds wait) { return static_cast<double>(wait.count()) / 1'000; };
  const HttpLimits& limits = owner_->limits();
  switch (phase_) {
    case Phase::kHead:
      Refuse(RefusalOf(408, StrCat("the head did not come within ", seconds(limits.head), " s")));
      return Run();
    case Phase::kBody:
      Refuse(RefusalOf(408, StrCat("the body comes slower than ", limits.progress_bytes, " bytes in ",
                                   seconds(limits.progress), " s")));
      return Run();
    case Phase::kHandling:
    case Phase::kClosed:
      return;
    case Phase::kHandshake:
    case Phase::kIdle:
    case Phase::kWriting:
    case Phase::kLingering:
      return Close();
  }
}

bool Connection::WaitFor(Moved want) {
  boost::system::error_code ignored;
  if (waiting_) socket_.cancel(ignored);
  waiting_ = true;
  const auto kind = want == Moved::kWantRead ? boost::asio::posix::stream_descriptor::wait_read
                                             : boost::asio::posix::stream_descriptor::wait_write;
  socket_.async_wait(kind, [self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    self->waiting_ = false;
    self->Run();
  });
  return false;
}

}  // namespace lightcone::server
