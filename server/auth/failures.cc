#include "server/auth/failures.h"

#include <algorithm>

namespace lightcone::server::auth {
namespace {

constexpr char kOthers[] = "others";

}  // namespace

std::string_view HostOfPeer(std::string_view peer) {
  if (!peer.starts_with("ipv4:") && !peer.starts_with("ipv6:")) return peer;
  const size_t colon = peer.rfind(':');
  return colon == 4 ? peer : peer.substr(0, colon);
}

FailureLimit::Verdict FailureLimit::Count(std::string_view peer, absl::Time now) {
  std::string host(HostOfPeer(peer));
  absl::MutexLock lock(&mutex_);
  if (peers_.size() >= kPeersMax && !peers_.contains(host)) {
    // Peers whose failures have all come back need no entry.
    const absl::Duration whole = std::max(absl::Seconds(kBurst / kPerSecond), kLogEvery);
    absl::erase_if(peers_, [&](const auto& one) { return now - one.second.seen >= whole; });
    if (peers_.size() >= kPeersMax) host = kOthers;
  }
  Peer& known = peers_[host];
  if (known.seen != absl::InfinitePast()) {
    known.left = std::min(kBurst, known.left + kPerSecond * std::max(0.0, absl::ToDoubleSeconds(now - known.seen)));
  }
  known.seen = now;
  Verdict verdict;
  verdict.limited = known.left < 1;
  if (!verdict.limited) known.left -= 1;
  verdict.log = now - known.logged >= kLogEvery;
  if (verdict.log) {
    verdict.unlogged = known.unlogged;
    known.unlogged = 0;
    known.logged = now;
  } else {
    ++known.unlogged;
  }
  return verdict;
}

}  // namespace lightcone::server::auth
