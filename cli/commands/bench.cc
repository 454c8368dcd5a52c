// `lightcone bench`: how fast and how well a server answers, as its users see it.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/programs.h"
#include "base/scratch_folder.h"
#include "base/status.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "cli/child_server.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json/message_json.h"
#include "cli/load/report.h"
#include "cli/table.h"

namespace lightcone::cli {
namespace {

struct BenchFlags {
  LoadSource source;
  LoadPlan plan;
  std::string metric, mix = "search=1", filter, truth, out, collection;
  std::vector<uint32_t> efs;
  std::vector<double> targets;  // recalls to reach
  int64_t recall_queries = 1000;
  bool embedded = false, keep = false;
};

constexpr uint32_t kEfs[] = {16, 32, 64, 128, 256, 512};

// The server that is asked: the one at --server, or one of its own over a folder that goes with it.
struct Target {
  std::unique_ptr<ScratchFolder> folder;
  std::unique_ptr<ChildServer> server;
  std::unique_ptr<client::Client> own_client;
  client::Client* client = nullptr;
  std::string name;
};

absl::StatusOr<Target> Reach(Context& context, const BenchFlags& flags) {
  Target target;
  if (!flags.embedded) {
    LC_ASSIGN_OR_RETURN(target.client, context.Client());
    target.name = context.address;
    return target;
  }
  LC_ASSIGN_OR_RETURN(target.folder, ScratchFolder::Make("bench"));
  LC_ASSIGN_OR_RETURN(target.server, ChildServer::Start(ProgramBeside("lightcone"), target.folder->path() + "/data"));
  LC_ASSIGN_OR_RETURN(target.own_client, client::Client::Connect({.address = target.server->address()}));
  LC_RETURN_IF_ERROR(target.own_client->WaitUntilServing(absl::Seconds(60)));
  target.client = target.own_client.get();
  target.name = "a server of its own";
  return target;
}

// Combinations that would measure something else than was asked for, or write where nobody said so.
absl::Status CheckTogether(const BenchFlags& flags) {
  const LoadPlan& plan = flags.plan;
  if (!flags.collection.empty() && plan.mix.writes()) {
    return InvalidField("--mix", flags.mix, "searches only in a collection that bench did not make (--collection)");
  }
  if (!flags.collection.empty() && flags.source.queries.empty()) {
    return InvalidField("--queries", "missing", "a file with queries for --collection");
  }
  if (!flags.collection.empty() && flags.embedded) {
    return InvalidField("--collection", flags.collection, "not with --embedded, whose server begins empty");
  }
  if (!flags.truth.empty() && (plan.mix.writes() || !flags.filter.empty())) {
    return InvalidField("--truth", flags.truth, "neither with writes nor with a filter: both change what is nearest");
  }
  if (!flags.truth.empty() && flags.source.queries.empty()) {
    return InvalidField("--queries", "missing", "the file whose nearest items --truth lists");
  }
  if (flags.recall_queries < 1) return InvalidField("--recall-queries", StrCat(flags.recall_queries), "1 or more");
  if (plan.exact && !flags.efs.empty()) return InvalidField("--ef", "given", "not with --exact, which walks no graph");
  if (plan.exact && !flags.targets.empty()) {
    return InvalidField("--target-recall", "given", "not with --exact, which finds all");
  }
  for (const double target : flags.targets) {
    if (!(target > 0 && target <= 1)) return InvalidField("--target-recall", StrCat(target), "above 0, up to 1");
  }
  for (const uint32_t ef : flags.efs) {
    if (ef < plan.k) return InvalidField("--ef", StrCat(ef), StrCat(plan.k, " (--k) or more"));
  }
  return absl::OkStatus();
}

// What is measured, one after the other; an unbroken rate is not cut into six.
std::vector<LoadPoint> PointsOf(const BenchFlags& flags) {
  std::vector<LoadPoint> points;
  const auto add = [&points](uint32_t ef, double target) {
    points.emplace_back().ef = ef;
    points.back().target_recall = target;
  };
  for (const uint32_t ef : flags.efs) add(ef, 0);
  for (const double target : flags.targets) add(0, target);
  const bool curve = !flags.plan.exact && flags.plan.rate == 0 && flags.plan.mix.search > 0;
  // First what a search finds that names no breadth.
  if (curve && flags.efs.empty() && flags.targets.empty()) add(0, 0);
  for (const uint32_t ef : kEfs) {
    if (curve && flags.efs.empty() && flags.targets.empty() && ef >= flags.plan.k) add(ef, 0);
  }
  if (points.empty()) add(0, 0);
  for (LoadPoint& point : points) point.exact = flags.plan.exact;
  return points;
}

absl::StatusOr<LoadVectors> VectorsOf(const BenchFlags& flags) {
  if (flags.collection.empty()) return MakeLoadVectors(flags.source);
  LoadVectors vectors;
  LC_ASSIGN_OR_RETURN(vectors.queries, ReadVectors(flags.source.queries, flags.source.query_count, &vectors.dimension));
  if (vectors.queries.empty()) return InvalidField("--queries", flags.source.queries, "a file with at least one row");
  return vectors;
}

absl::Status MeasurePoints(client::Client& client, Context& context, const BenchFlags& flags,
                           const LoadVectors& vectors, LoadReport& report) {
  LoadPlan& plan = report.plan;
  const bool searches = plan.mix.search > 0;
  GroundTruth truth;
  if (searches && !flags.truth.empty()) {
    LC_ASSIGN_OR_RETURN(truth, ReadTruth(flags.truth, plan.k, flags.recall_queries));
  } else if (searches && !plan.mix.writes()) {
    LC_ASSIGN_OR_RETURN(truth, AskExactly(client, plan, vectors, flags.recall_queries));
  }
  const std::vector<LoadPoint> points = PointsOf(flags);
  ProgressBar progress("bench", static_cast<int64_t>(points.size()), "points");
  for (LoadPoint point : points) {
    plan.ef = point.ef;
    plan.target_recall = point.target_recall;
    LC_ASSIGN_OR_RETURN(point.load, RunLoad(client, plan, vectors));
    plan.first_free_id = point.load.next_free_id;
    if (searches) {
      if (plan.mix.writes()) {
        LC_ASSIGN_OR_RETURN(truth, AskExactly(client, plan, vectors, flags.recall_queries));
      }
      LC_ASSIGN_OR_RETURN(point.recall, MeasureRecall(client, plan, vectors, truth));
      report.recall_queries = std::min(truth.queries(), vectors.query_count());
    }
    report.points.push_back(std::move(point));
    progress.Show(static_cast<double>(report.points.size()) / static_cast<double>(points.size()),
                  static_cast<int64_t>(report.points.size()));
  }
  progress.Clear();
  if (context.json) {
    context.PrintJson(LoadJson(report));
  } else {
    context.Print(LoadText(report));
  }
  return absl::OkStatus();
}

absl::Status WriteOut(const BenchFlags& flags, const LoadReport& report) {
  if (flags.out.empty()) return absl::OkStatus();
  LC_RETURN_IF_ERROR(MakeFolders(flags.out));
  LC_RETURN_IF_ERROR(WriteFileAtomically(flags.out + "/bench.json", LoadJson(report).dump(2) + "\n"));
  if (report.plan.mix.search == 0) return absl::OkStatus();
  return WriteFileAtomically(flags.out + "/bench.svg", LoadSvg(report));
}

absl::Status DropGallery(client::Client& client, const std::string& collection) {
  v1::DropRequest drop;
  drop.set_name(collection);
  return client.DropCollection(drop).status();
}

absl::Status Bench(Context& context, BenchFlags& flags, const std::atomic<bool>* stop) {
  LoadReport report;
  report.plan = flags.plan;
  LoadPlan& plan = report.plan;
  LC_ASSIGN_OR_RETURN(plan.mix, ParseLoadMix(flags.mix));
  if (!flags.filter.empty()) LC_RETURN_IF_ERROR(SetFilter(flags.filter, &plan.filter.emplace()));
  flags.plan = plan;
  LC_RETURN_IF_ERROR(plan.Validate());
  LC_RETURN_IF_ERROR(CheckTogether(flags));
  if (flags.metric.empty()) flags.metric = flags.source.data == LoadSource().data ? "lorentz" : "euclidean";
  LC_ASSIGN_OR_RETURN(const LoadVectors vectors, VectorsOf(flags));
  LC_ASSIGN_OR_RETURN(const Target target, Reach(context, flags));
  plan.stop = stop;
  plan.collection = flags.collection;
  report.data = flags.source.data;
  report.metric = flags.metric;
  report.server = target.name;
  report.version = kVersion;
  report.items = vectors.item_count();
  report.queries = vectors.query_count();
  report.dimension = vectors.dimension;
  if (!flags.collection.empty()) {
    v1::CollectionsGetRequest get;
    get.set_name(flags.collection);
    LC_ASSIGN_OR_RETURN(const v1::CollectionsGetResponse got, target.client->GetCollection(get));
    report.data = StrCat("collection ", flags.collection);
    report.items = static_cast<int64_t>(got.collection().items());
    report.metric = EnumName(got.collection().geometry());
    LC_RETURN_IF_ERROR(MeasurePoints(*target.client, context, flags, vectors, report));
    return WriteOut(flags, report);
  }
  plan.collection = StrCat("bench-", client::NewRequestId().substr(0, 8));
  plan.first_free_id = static_cast<uint64_t>(vectors.item_count());
  const auto times = FillGallery(*target.client, plan.collection, flags.metric, vectors, plan.stop);
  absl::Status status = times.status();
  if (status.ok()) {
    report.filled = true;
    report.times = *times;
    status = MeasurePoints(*target.client, context, flags, vectors, report);
  }
  if (flags.keep) {
    if (!context.json) context.Print(StrCat("the collection stays: ", plan.collection, "\n"));
  } else {
    const absl::Status dropped = DropGallery(*target.client, plan.collection);
    if (status.ok()) status = dropped;  // The first error says more.
  }
  LC_RETURN_IF_ERROR(status);
  return WriteOut(flags, report);
}

absl::Status RunBench(Context& context, BenchFlags& flags) {
  const StopOnInterrupt interrupt;
  return Bench(context, flags, interrupt.flag());
}

}  // namespace

void AddBench(CLI::App& root, Context& context) {
  auto flags = std::make_shared<BenchFlags>();
  LoadSource& source = flags->source;
  LoadPlan& plan = flags->plan;
  CLI::App* app = AddCommand(root, "bench", "Load a server and measure recall, searches a second and times of calls");
  app->add_flag("--embedded", flags->embedded, "Ask a server of its own, which ends with the benchmark");
  app->add_option("--data", source.data, "random-clustered, or a file of vectors: npy, fvecs, bvecs, jsonl")
      ->capture_default_str();
  app->add_option("--items", source.items, "Rows to write; 0: 100,000 clustered ones, or the whole file")
      ->capture_default_str();
  app->add_option("--dimension", source.dimension, "Of clustered vectors")->capture_default_str();
  app->add_option("--clusters", source.clusters, "Of clustered vectors")->capture_default_str();
  app->add_option("--seed", source.seed, "Of clustered vectors and of the mix")->capture_default_str();
  app->add_option("--queries", source.queries, "A file of queries; without it rows are held out of the data");
  app->add_option("--query-count", source.query_count, "Queries, at most")->capture_default_str();
  app->add_option("--truth", flags->truth,
                  "An ivecs file with the nearest items of --queries; else the server's exact search says");
  app->add_option("--recall-queries", flags->recall_queries, "Queries that recall is measured on")
      ->capture_default_str();
  app->add_option("--metric", flags->metric,
                  "lorentz (default of random-clustered), euclidean (of files), cosine, inner_product");
  app->add_option("--collection", flags->collection, "Ask this collection, as it is, instead of filling a new one");
  app->add_flag("--keep", flags->keep, "Leave the new collection there");
  app->add_option("--clients", plan.clients, "Calls under way at once")->capture_default_str();
  app->add_option("--batch", plan.batch, "Queries, items or ids a call")->capture_default_str();
  app->add_option("--rate", plan.rate, "Calls a second of an open loop; 0: closed loop")->capture_default_str();
  app->add_option("--seconds", plan.seconds, "Measured a point")->capture_default_str();
  app->add_option("--warm-up", plan.warm_up_seconds, "Seconds of load before a point is measured")
      ->capture_default_str();
  app->add_option("--mix", flags->mix, "Shares of calls, such as search=0.9,upsert=0.08,delete=0.02")
      ->capture_default_str();
  app->add_option("-k,--k", plan.k, "Hits a query")->capture_default_str();
  app->add_option("--ef", flags->efs,
                  "Breadths of the graph walk, a point each (closed loop: the default, 16,32,...,512; open: the "
                  "collection's own)")
      ->delimiter(',');
  app->add_option("--target-recall", flags->targets, "Recalls that searches ask for, a point each")->delimiter(',');
  app->add_flag("--exact", plan.exact, "Exact searches");
  app->add_option("--filter", flags->filter, "Of the searches");
  app->add_option("--out", flags->out, "Folder for bench.json and the plot bench.svg");
  app->callback([&context, flags, app] {
    flags->plan.seed = flags->source.seed;
    const absl::Status texts = CheckTexts(*app);
    context.Finish(texts.ok() ? RunBench(context, *flags) : texts);
  });
}

}  // namespace lightcone::cli
