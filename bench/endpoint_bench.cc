// How busy a backfill keeps an endpoint that embeds texts: a stand-in on the loopback that takes a model's time.
#include <chrono>

#include "absl/time/clock.h"
#include "base/status.h"
#include "bench/benches.h"
#include "bench/http_peer.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "nlohmann/json.hpp"

namespace lightcone::bench {
namespace {

constexpr char kCollection[] = "texts";
constexpr int64_t kItems = 20'000;
constexpr int kDimension = 384;
constexpr int kConcurrency = 4;
constexpr int kRounds = 3;
constexpr int64_t kUpsert = 500;
// A small model on a processor of its own: 64 texts in 57 ms.
constexpr std::chrono::microseconds kPause(25'000), kPausePerText(500);

absl::Status AddGeneration(client::Client& client, const std::string& host, const std::string& model) {
  v1::RegisterRequest add;
  add.set_collection(kCollection);
  add.set_manifest_json(
      nlohmann::json(
          {{"dimension", kDimension},
           {"endpoint",
            {{"url", StrCat("http://", host, "/v1/embeddings")}, {"model", model}, {"concurrency", kConcurrency}}}})
          .dump());
  return client.RegisterGeneration(add).status();
}

absl::Status FillByTexts(client::Client& client) {
  for (int64_t begin = 0; begin < kItems; begin += kUpsert) {
    v1::UpsertRequest batch;
    batch.set_collection(kCollection);
    batch.set_keep_input(true);
    for (int64_t i = begin; i < begin + kUpsert; ++i) {
      v1::Item* const item = batch.add_items();
      item->mutable_id()->set_number(static_cast<uint64_t>(i));
      item->mutable_input()->set_text(
          StrCat("text number ", i, " of a gallery that is embedded anew, of average length"));
    }
    LC_RETURN_IF_ERROR(client.Upsert(batch, {.timeout = absl::Minutes(1)}).status());
  }
  return absl::OkStatus();
}

absl::Status AwaitBackfill(client::Client& client) {
  v1::StatusRequest request;
  request.set_collection(kCollection);
  for (const absl::Time limit = absl::Now() + absl::Minutes(10); absl::Now() < limit;) {
    LC_ASSIGN_OR_RETURN(const v1::StatusResponse status, client.BackfillStatus(request));
    if (status.state() == v1::BACKFILL_STATE_DONE) return absl::OkStatus();
    absl::SleepFor(absl::Milliseconds(5));
  }
  return Internal("the backfill did not end");
}

}  // namespace

absl::Status BenchEndpoint(const BenchOptions& options, Report& report) {
  SlowEndpoint endpoint(kDimension, kPause, kPausePerText);
  LC_ASSIGN_OR_RETURN(auto server, cli::ChildServer::Start(options.server_binary, options.folder + "/endpoint",
                                                           {"--encoder-endpoint-hosts", endpoint.host()}));
  LC_ASSIGN_OR_RETURN(auto client, client::Client::Connect({.address = server->address()}));
  LC_RETURN_IF_ERROR(client->WaitUntilServing(absl::Seconds(60)));
  v1::CreateRequest create;
  create.set_name(kCollection);
  create.set_geometry(v1::GEOMETRY_COSINE);
  LC_RETURN_IF_ERROR(client->CreateCollection(create).status());
  LC_RETURN_IF_ERROR(AddGeneration(*client, endpoint.host(), "first"));
  v1::ActivateRequest activate;
  activate.set_collection(kCollection);
  activate.set_generation(1);
  LC_RETURN_IF_ERROR(client->ActivateGeneration(activate).status());
  LC_RETURN_IF_ERROR(FillByTexts(*client));
  std::vector<double> busy, requests;
  for (int round = 0; round < kRounds; ++round) {
    LC_RETURN_IF_ERROR(AddGeneration(*client, endpoint.host(), StrCat("model-", round)));
    endpoint.TakeUse();
    v1::BackfillStartRequest start;
    start.set_collection(kCollection);
    start.set_embed_rate(1e6);
    start.set_generation(static_cast<uint32_t>(round + 2));
    LC_RETURN_IF_ERROR(client->StartBackfill(start).status());
    LC_RETURN_IF_ERROR(AwaitBackfill(*client));
    const SlowEndpoint::Use use = endpoint.TakeUse();
    busy.push_back(use.busy_s / use.wall_s);
    requests.push_back(use.requests_s / use.wall_s);
  }
  report.Add(
      {.name = StrCat("backfill by an endpoint, ", kItems, " texts, as fast as it goes, time with a request under way"),
       .value = 100 * Median(busy),
       .unit = "%",
       .peer = "all of the time",
       .peer_value = 100,
       .ratio = Median(busy),
       .goal = "ratio >= 0.9",
       .met = Median(busy) >= 0.9,
       .spread = Spread(busy)});
  report.Add({.name = "the same, requests under way of the three that a backfill may have",
              .value = Median(requests),
              .unit = "requests",
              .peer = "requests that it may have",
              .peer_value = kConcurrency - 1,
              .ratio = Median(requests) / (kConcurrency - 1),
              .spread = Spread(requests)});
  return absl::OkStatus();
}

}  // namespace lightcone::bench
