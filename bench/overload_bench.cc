// A server that gets four times the load that saturates it: what it answers, how soon it refuses the rest, what memory
// that takes, and whether health probes get through. Calls of the overload start at fixed times, whatever comes back.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/clusters.h"
#include "bench/http_peer.h"
#include "bench/load.h"
#include "bench/paced.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "lightcone/v1/retrieval.grpc.pb.h"

namespace lightcone::bench {
namespace {

constexpr char kCollection[] = "gallery";
constexpr int kRounds = 3;
constexpr int kClients = 16;  // twice rpc.read_threads: each thread finds a call when it has ended one
constexpr int kOverload = 4;
constexpr int kHits = 10;
constexpr size_t kRequests = 64;
constexpr int kQueriesMax = 200;      // queries of a call
constexpr double kCallMsMin = 4;      // time of an unloaded call, beside which starting one costs little
constexpr int kHealthCalls = 200;     // calls of which the unloaded round trip is the median
constexpr double kStartedMin = 0.9;   // share of the wanted calls below which the generator is the bottleneck
constexpr double kMemoryMiBMax = 64;  // memory of a full queue, and of what gRPC and the allocator keep
constexpr double kHealthMsMax = 50, kRefusalMsMax = 5, kAdmittedRatioMax = 2, kAfterRatioMax = 1.5;
constexpr absl::Duration kSaturated = absl::Milliseconds(2'500), kDeadline = absl::Seconds(5);
constexpr absl::Duration kOnset = absl::Seconds(1);          // time in which the lane finds that it is overloaded
constexpr absl::Duration kSteady = absl::Seconds(4);         // time that the figures are of
constexpr absl::Duration kCalm = absl::Milliseconds(1'500);  // Overload ends a second after the last refusal.
constexpr absl::Duration kProbing = absl::Milliseconds(50);  // time from one probe of the server to the next
constexpr double kMiB = 1 << 20;

using Stub = v1::Retrieval::Stub;
using Requests = std::vector<v1::SearchRequest>;

// A server with a gallery, the connections to it, and what they ask.
struct World {
  std::unique_ptr<cli::ChildServer> server;
  std::unique_ptr<client::Client> client;
  std::vector<std::unique_ptr<Stub>> stubs;  // kClients, each with a connection of its own
  Requests requests;
};

double MillisecondsSince(absl::Time begin) { return absl::ToDoubleMilliseconds(absl::Now() - begin); }

// Requests of `queries` queries each, from the rows in turn.
Requests MakeRequests(std::span<const float> rows, int dimension, int queries) {
  Requests requests(kRequests);
  const size_t count = rows.size() / static_cast<size_t>(dimension);
  size_t row = 0;
  for (v1::SearchRequest& request : requests) {
    request.set_collection(kCollection);
    request.set_k(kHits);
    request.set_exact(true);
    for (int q = 0; q < queries; ++q, row = (row + 1) % count) {
      client::SetVector(&rows[row * static_cast<size_t>(dimension)], dimension,
                        request.add_queries()->mutable_vector());
    }
  }
  return requests;
}

// Whether every query has its hits, in place of an error of its own.
bool HasAllHits(const v1::SearchResponse& response) {
  const auto& results = response.results();
  return std::all_of(results.begin(), results.end(),
                     [](const v1::QueryResult& result) { return result.hits_size() == kHits; });
}

// Adds the call's time to the list.
absl::Status SearchOnce(Stub& stub, const v1::SearchRequest& request, std::vector<double>* times_ms) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  v1::SearchResponse response;
  const absl::Time begin = absl::Now();
  const grpc::Status status = stub.Search(&context, request, &response);
  if (!status.ok()) return Internal(StrCat("a search without overload failed: ", status.error_message()));
  times_ms->push_back(MillisecondsSince(begin));
  return HasAllHits(response) ? absl::OkStatus() : Internal("a search without overload lacks hits");
}

// Requests with so many queries that a call takes kCallMsMin or more on this machine.
absl::Status ChooseRequests(std::span<const float> rows, int dimension, World* world) {
  for (int queries = 1; queries <= kQueriesMax; queries += 1 + queries / 2) {
    world->requests = MakeRequests(rows, dimension, queries);
    std::vector<double> times_ms;
    for (size_t i = 0; i < 15; ++i) {
      LC_RETURN_IF_ERROR(SearchOnce(*world->stubs[0], world->requests[i], &times_ms));
    }
    if (Median(times_ms) >= kCallMsMin) break;
  }
  return absl::OkStatus();
}

absl::Status Fill(client::Client& client, std::span<const float> rows, int dimension) {
  v1::IndexSettings index;
  index.set_kind(v1::INDEX_KIND_FLAT);
  LC_RETURN_IF_ERROR(MakeCollection(client, kCollection, dimension, index));
  LC_RETURN_IF_ERROR(LoadRows(client, kCollection, rows, dimension));
  v1::RebuildRequest rebuild;
  rebuild.set_collection(kCollection);
  rebuild.set_wait(true);
  return client.RebuildCollection(rebuild, {.timeout = absl::Minutes(20)}).status();
}

absl::StatusOr<World> MakeWorld(const BenchOptions& options) {
  constexpr int64_t kQueryRows = 1'000;
  const int64_t items = std::min<int64_t>(options.items, 200'000);
  const std::vector<float> rows = ClusteredVectors(items + kQueryRows, options.dimension, 500, 0.7, 11);
  const size_t gallery = static_cast<size_t>(items) * static_cast<size_t>(options.dimension);
  World world;
  LC_ASSIGN_OR_RETURN(world.server, cli::ChildServer::Start(options.server_binary, options.folder + "/overload"));
  LC_ASSIGN_OR_RETURN(world.client, client::Client::Connect({.address = world.server->address()}));
  LC_RETURN_IF_ERROR(world.client->WaitUntilServing(absl::Seconds(60)));
  LC_RETURN_IF_ERROR(Fill(*world.client, std::span(rows).first(gallery), options.dimension));
  for (int c = 0; c < kClients; ++c) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    world.stubs.push_back(v1::Retrieval::NewStub(
        grpc::CreateCustomChannel(world.server->address(), grpc::InsecureChannelCredentials(), own)));
  }
  LC_RETURN_IF_ERROR(ChooseRequests(std::span(rows).subspan(gallery), options.dimension, &world));
  return world;
}

// What the server's operator sees while it works.
struct Vitals {
  double health_ms_max = 0;  // longest answer of a probe, the connection included
  int64_t resident_max = 0;  // bytes
};

// Each probe has a connection of its own, as those of an orchestrator.
absl::Status Probe(const cli::ChildServer& server, Vitals* vitals) {
  for (const char* path : {"/healthz", "/readyz"}) {
    const absl::Time begin = absl::Now();
    LC_ASSIGN_OR_RETURN(const auto connection, HttpClient::Connect(server.http_address()));
    LC_RETURN_IF_ERROR(Annotate(connection->Get(path), path));
    vitals->health_ms_max = std::max(vitals->health_ms_max, MillisecondsSince(begin));
  }
  LC_ASSIGN_OR_RETURN(const int64_t resident, MemoryOf(server.pid(), "VmRSS"));
  vitals->resident_max = std::max(vitals->resident_max, resident);
  return absl::OkStatus();
}

// Probes the server every kProbing while `load` runs.
absl::StatusOr<Vitals> ProbeDuring(const cli::ChildServer& server, const std::function<absl::Status()>& load) {
  Vitals vitals;
  absl::Status probed, loaded;
  {
    const std::jthread prober([&](const std::stop_token& stop) {
      for (absl::Time due = absl::Now(); !stop.stop_requested() && probed.ok(); due += kProbing) {
        absl::SleepFor(due - absl::Now());
        probed = Probe(server, &vitals);
      }
    });
    loaded = load();
  }
  LC_RETURN_IF_ERROR(loaded);
  LC_RETURN_IF_ERROR(probed);
  return vitals;
}

struct Saturation {
  double calls_per_s = 0, p99_ms = 0;
};

// The most that the server answers: kClients that ask one search after the other.
absl::StatusOr<Saturation> Saturate(const World& world) {
  std::array<std::vector<double>, kClients> times_ms;
  std::array<absl::Status, kClients> errors;
  const absl::Time begin = absl::Now(), end = begin + kSaturated;
  {
    std::vector<std::jthread> threads;
    for (size_t c = 0; c < kClients; ++c) {
      threads.emplace_back([&, c] {
        for (size_t q = c; absl::Now() < end && errors[c].ok(); q = (q + 7) % kRequests) {
          errors[c] = SearchOnce(*world.stubs[c], world.requests[q], &times_ms[c]);
        }
      });
    }
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  for (const absl::Status& error : errors) LC_RETURN_IF_ERROR(error);
  std::vector<double> all;
  for (const std::vector<double>& of_client : times_ms) all.insert(all.end(), of_client.begin(), of_client.end());
  return Saturation{static_cast<double>(all.size()) / seconds, Percentile99(all)};
}

// One call of the open loop.
struct Call {
  grpc::ClientContext context;
  v1::SearchResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SearchResponse>> reader;
  absl::Time started;
};

// Answers of the open loop. Their times count from the start of the call.
struct Answers {
  std::vector<double> admitted_ms;       // of calls that were let in, those that then missed their deadline included
  std::vector<double> refused_ms;        // Refusals of the steady time
  std::vector<double> onset_refused_ms;  // Refusals of the onset
  int64_t answered = 0;                  // searches of the steady time that succeeded
  std::string failure;                   // message of a call that was neither answered nor refused
};

// Takes answers until the queue is shut down and empty. Calls that started from `steady` on are of the steady time.
void TakeAnswers(grpc::CompletionQueue* queue, absl::Time steady, Answers* answers) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    const double time_ms = MillisecondsSince(call->started);
    const bool is_steady = call->started >= steady;
    const grpc::StatusCode code = call->status.error_code();
    if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      (is_steady ? answers->refused_ms : answers->onset_refused_ms).push_back(time_ms);
    } else if (code != grpc::StatusCode::OK && code != grpc::StatusCode::DEADLINE_EXCEEDED) {
      answers->failure = call->status.error_message();
    } else if (code == grpc::StatusCode::OK && !HasAllHits(call->response)) {
      answers->failure = "an answer lacks hits";
    } else if (is_steady) {
      answers->admitted_ms.push_back(time_ms);
      answers->answered += code == grpc::StatusCode::OK;
    }
  }
}

void StartCall(Stub& stub, const v1::SearchRequest& request, grpc::CompletionQueue* queue) {
  Call* const call = new Call;  // The thread that takes the answer deletes it.
  call->started = absl::Now();
  call->context.set_deadline(absl::ToChronoTime(call->started + kDeadline));
  call->reader = stub.AsyncSearch(&call->context, request, queue);
  call->reader->Finish(&call->response, &call->status, call);
}

struct Overloaded {
  Answers answers;
  double late_ms = 0;  // p99 of how late a call was started, the start itself included
};

// Starts `calls_per_s` whatever comes back. INTERNAL when fewer were started, when a call was neither answered nor
// refused, and when there is nothing to tell the time of.
absl::StatusOr<Overloaded> OverloadServer(const World& world, double calls_per_s) {
  Overloaded result;
  grpc::CompletionQueue queue;
  const absl::Time begin = absl::Now(), steady = begin + kOnset, end = steady + kSteady;
  std::vector<double> late_ms;
  {
    const std::jthread taker([&] { TakeAnswers(&queue, steady, &result.answers); });
    size_t calls = 0;
    const absl::Status started = Paced(begin, end, absl::Seconds(1) / calls_per_s, &late_ms, [&]() -> absl::Status {
      StartCall(*world.stubs[calls % kClients], world.requests[calls % kRequests], &queue);
      ++calls;
      return absl::OkStatus();
    });
    queue.Shutdown();
    LC_RETURN_IF_ERROR(started);
  }
  const double reached = static_cast<double>(late_ms.size()) / absl::ToDoubleSeconds(end - begin);
  if (reached < kStartedMin * calls_per_s) {
    return Internal(StrCat("the generator started ", reached, " calls/s of ", calls_per_s,
                           ": it is the bottleneck, and the server was not overloaded as wanted"));
  }
  const Answers& answers = result.answers;
  if (!answers.failure.empty()) return Internal(StrCat("a search under overload failed: ", answers.failure));
  if (answers.admitted_ms.empty() || answers.refused_ms.empty()) {
    return Internal(StrCat("of the calls at ", calls_per_s, " calls/s ", answers.admitted_ms.size(),
                           " were let in and ", answers.refused_ms.size(), " refused; both must be above 0"));
  }
  result.late_ms = Percentile99(late_ms);
  return result;
}

// A unary call that takes no lane, as a refusal does.
absl::StatusOr<double> UnloadedRoundTrip(client::Client& client) {
  std::vector<double> times_ms;
  for (int i = 0; i < kHealthCalls; ++i) {
    const absl::Time begin = absl::Now();
    LC_RETURN_IF_ERROR(client.CheckHealth());
    times_ms.push_back(MillisecondsSince(begin));
  }
  return Median(times_ms);
}

// What the rounds measured, an element a round.
struct Rounds {
  std::vector<double> saturated_ms, saturated_calls, after_ms, after_ratio;
  std::vector<double> admitted_ms, admitted_ratio, answered_calls, answered_share;
  std::vector<double> round_trip_ms, refused_ms, refused_added_ms, refused_median_ms, median_added_ms;
  std::vector<double> onset_ms;  // Rounds without a refusal in the onset are left out.
  std::vector<double> health_ms, late_ms, late_share, saturated_mib, overload_mib;
};

absl::Status MeasureRound(const World& world, Rounds* rounds) {
  Saturation before, after;
  Overloaded overloaded;
  const auto saturate = [&world](Saturation* result) -> absl::Status {
    LC_ASSIGN_OR_RETURN(*result, Saturate(world));
    return absl::OkStatus();
  };
  const auto flood = [&]() -> absl::Status {
    LC_ASSIGN_OR_RETURN(overloaded, OverloadServer(world, kOverload * before.calls_per_s));
    return absl::OkStatus();
  };
  LC_ASSIGN_OR_RETURN(const double round_trip_ms, UnloadedRoundTrip(*world.client));
  LC_ASSIGN_OR_RETURN(const Vitals busy, ProbeDuring(*world.server, [&] { return saturate(&before); }));
  LC_ASSIGN_OR_RETURN(const Vitals flooded, ProbeDuring(*world.server, flood));
  absl::SleepFor(kCalm);
  LC_RETURN_IF_ERROR(ProbeDuring(*world.server, [&] { return saturate(&after); }).status());

  const Answers& answers = overloaded.answers;
  const double admitted_ms = Percentile99(answers.admitted_ms), refused_ms = Percentile99(answers.refused_ms);
  const double refused_median_ms = Median(answers.refused_ms);
  const double answered = static_cast<double>(answers.answered) / absl::ToDoubleSeconds(kSteady);
  rounds->saturated_ms.push_back(before.p99_ms);
  rounds->saturated_calls.push_back(before.calls_per_s);
  rounds->after_ms.push_back(after.p99_ms);
  rounds->after_ratio.push_back(after.p99_ms / before.p99_ms);
  rounds->admitted_ms.push_back(admitted_ms);
  rounds->admitted_ratio.push_back(admitted_ms / before.p99_ms);
  rounds->answered_calls.push_back(answered);
  rounds->answered_share.push_back(answered / before.calls_per_s);
  rounds->round_trip_ms.push_back(round_trip_ms);
  rounds->refused_ms.push_back(refused_ms);
  rounds->refused_added_ms.push_back(refused_ms - round_trip_ms);
  rounds->refused_median_ms.push_back(refused_median_ms);
  rounds->median_added_ms.push_back(refused_median_ms - round_trip_ms);
  if (!answers.onset_refused_ms.empty()) rounds->onset_ms.push_back(Percentile99(answers.onset_refused_ms));
  rounds->health_ms.push_back(flooded.health_ms_max);
  rounds->late_ms.push_back(overloaded.late_ms);
  rounds->late_share.push_back(overloaded.late_ms * kOverload * before.calls_per_s / 1e3);
  rounds->saturated_mib.push_back(static_cast<double>(busy.resident_max) / kMiB);
  rounds->overload_mib.push_back(static_cast<double>(flooded.resident_max) / kMiB);
  return absl::OkStatus();
}

void ReportRefusals(const Rounds& rounds, Report& report) {
  const auto add = [&](const std::string& name, const std::vector<double>& times_ms, const std::vector<double>& added) {
    report.Add({.name = name,
                .value = Median(times_ms),
                .unit = "ms",
                .peer = "an unloaded health check over gRPC, p50",
                .peer_value = Median(rounds.round_trip_ms),
                .ratio = Median(times_ms) / Median(rounds.round_trip_ms),
                .goal = "value-peer <= 5",
                .met = Median(added) <= kRefusalMsMax,
                .spread = Spread(added)});
  };
  add("4 x saturation, refusals p99", rounds.refused_ms, rounds.refused_added_ms);
  add("4 x saturation, refusals p50", rounds.refused_median_ms, rounds.median_added_ms);
  if (rounds.onset_ms.empty()) return;
  report.Add({.name = "4 x saturation, refusals of the first second, p99",
              .value = Median(rounds.onset_ms),
              .unit = "ms",
              .peer = "refusals of the seconds after it, p99",
              .peer_value = Median(rounds.refused_ms),
              .ratio = Median(rounds.onset_ms) / Median(rounds.refused_ms),
              .goal = "",
              .spread = Spread(rounds.onset_ms)});
}

void ReportSearches(const Rounds& rounds, Report& report) {
  const std::string peer = StrCat("at saturation, ", kClients, " clients that each wait");
  report.Add({.name = "4 x saturation, admitted p99",
              .value = Median(rounds.admitted_ms),
              .unit = "ms",
              .peer = peer,
              .peer_value = Median(rounds.saturated_ms),
              .ratio = Median(rounds.admitted_ratio),
              .goal = "ratio <= 2",
              .met = Median(rounds.admitted_ratio) <= kAdmittedRatioMax,
              .spread = Spread(rounds.admitted_ratio)});
  report.Add({.name = "4 x saturation, calls answered",
              .value = Median(rounds.answered_calls),
              .unit = "calls/s",
              .peer = peer,
              .peer_value = Median(rounds.saturated_calls),
              .ratio = Median(rounds.answered_share),
              .goal = "",
              .spread = Spread(rounds.answered_share)});
  report.Add({.name = "saturation after 4 x saturation, p99",
              .value = Median(rounds.after_ms),
              .unit = "ms",
              .peer = "the same before it",
              .peer_value = Median(rounds.saturated_ms),
              .ratio = Median(rounds.after_ratio),
              .goal = "ratio <= 1.5",
              .met = Median(rounds.after_ratio) <= kAfterRatioMax,
              .spread = Spread(rounds.after_ratio)});
}

void ReportVitals(const Rounds& rounds, Report& report) {
  // The first saturation is the base of all rounds, so that memory that a round keeps counts in the next.
  const double peak_mib = *std::max_element(rounds.overload_mib.begin(), rounds.overload_mib.end());
  report.AddAtMost("4 x saturation, peak memory beyond that at saturation", peak_mib - rounds.saturated_mib.front(),
                   "MiB", kMemoryMiBMax, Spread(rounds.overload_mib));
  report.AddAtMost("4 x saturation, longest answer of /healthz and /readyz",
                   *std::max_element(rounds.health_ms.begin(), rounds.health_ms.end()), "ms", kHealthMsMax,
                   Spread(rounds.health_ms));
  report.Add({.name = "4 x saturation, calls started late by, p99",
              .value = Median(rounds.late_ms),
              .unit = "ms",
              .peer = "time from one start to the next",
              .peer_value = Median(rounds.late_ms) / Median(rounds.late_share),
              .ratio = Median(rounds.late_share),
              .goal = "",
              .spread = Spread(rounds.late_share)});
}

}  // namespace

absl::Status BenchOverload(const BenchOptions& options, Report& report) {
  LC_ASSIGN_OR_RETURN(const World world, MakeWorld(options));
  LC_RETURN_IF_ERROR(Saturate(world).status());  // warm-up
  Rounds rounds;
  for (int round = 0; round < kRounds; ++round) LC_RETURN_IF_ERROR(MeasureRound(world, &rounds));
  ReportSearches(rounds, report);
  ReportRefusals(rounds, report);
  ReportVitals(rounds, report);
  return absl::OkStatus();
}

}  // namespace lightcone::bench
