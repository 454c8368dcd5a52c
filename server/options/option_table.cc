#include "server/options/option_table.h"

#include <cctype>
#include <limits>
#include <utility>

#include "base/lock_in.h"
#include "base/named_paths.h"
#include "base/status.h"
#include "server/options/endpoint_options.h"
#include "server/options/option_rows.h"

namespace lightcone::server {
namespace {

constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

void AddServer(std::vector<Option>* out) {
  out->push_back(Text("listen", FIELD(listen), "HOST:PORT (port 0: any free one), [IPV6]:PORT or unix:/path",
                      {"", "Address at which the gRPC services listen.",
                       "To serve other machines, for example 0.0.0.0:7700: that needs TLS and keys, or insecure."}));
  out->push_back(
      Text("http_listen", FIELD(http_listen), "HOST:PORT, [IPV6]:PORT, or empty for none",
           {"", "Address at which the console, /metrics, /healthz, /livez and /readyz listen; empty: none.",
            "So that Prometheus, browsers or an orchestrator on another machine can reach it: that needs TLS and keys, "
            "or insecure."}));
  out->push_back(Flag("insecure", FIELD(insecure),
                      {"", "Whether the server may listen beyond loopback without TLS or without keys.",
                       "true inside a trusted network, or behind a proxy that encrypts and checks callers."}));
  out->push_back(
      Text("data", FIELD(engine.data_folder), "a folder that is empty, missing or a Lightcone's",
           {"", "The data folder: store, segments, encoders.", "Always, in production: a disk of your choice."}));
  out->push_back(Whole("threads", FIELD(engine.search_threads), 0, 1'024,
                       {"threads", "Threads on which the legs and queries of searches run; 0: one for each core.",
                        "Lower it when other programs share the machine."}));
  out->push_back(Number(
      "drain_seconds", [](const ServerConfig& c) { return c.drain_seconds; },
      [](ServerConfig& c, double v) { c.drain_seconds = v; }, 0, 86'400,
      {"seconds", "Time that running calls have after SIGTERM.",
       "Keep it below the grace period of what stops the server (Kubernetes: terminationGracePeriodSeconds)."}));
  out->push_back(Choice(
      "log.level", [](const ServerConfig& c) { return c.log_level; },
      [](ServerConfig& c, std::string v) { c.log_level = std::move(v); }, {"debug", "info", "warning", "error", "off"},
      {"", "The least severe message that is logged (to stderr).", "debug shows every call that fails."}));
  out->push_back(Choice(
      "log.format", [](const ServerConfig& c) { return c.log_format; },
      [](ServerConfig& c, std::string v) { c.log_format = std::move(v); }, {"text", "json"},
      {"", "Lines for people, or one JSON object a line.", "json where a log collector reads."}));
}

void AddConsole(std::vector<Option>* out) {
  out->push_back(Flag("http.metrics_open", FIELD(http_metrics_open),
                      {"", "Whether /metrics is open to callers without a key, where keys are asked for.",
                       "Where Prometheus cannot send a key. The figures name every collection."}));
  out->push_back(Choice(
      "console.mode", [](const ServerConfig& c) { return c.console_mode; },
      [](ServerConfig& c, std::string v) { c.console_mode = std::move(v); }, {"auto", "operate", "read", "off"},
      {"",
       "Rights of the console at http_listen; auto: operate with keys or where only this machine reaches it, else "
       "read.",
       "operate where only operators reach the port. With keys auto is operate: a session acts by its key's scopes."}));
  out->push_back(Text("console.host", FIELD(console_host), "host names with commas between them, or empty",
                      {"",
                       "Names by which browsers and Prometheus reach http_listen, beside addresses, localhost and the "
                       "host of http_listen.",
                       "Behind a reverse proxy or a name of your own; requests with other names in the header Host are "
                       "refused, but those of /healthz, /livez and /readyz."}));
}

void AddTrust(std::vector<Option>* out) {
  out->push_back(Text("auth.keys_file", FIELD(auth.keys_file), "a file of lines by `lightcone key create`, or empty",
                      {"", "File of the keys that callers must show; empty: none. It is read again when it changes.",
                       "Wherever others than you can reach the server."}));
  out->push_back(
      Text("auth.token_secrets_file", FIELD(auth.token_secrets_file),
           "a file of one or two lines of at least 32 bytes, or empty",
           {"", "File of the secrets that sign tokens (JWT, HS256); empty: none. It is read again when it changes.",
            "Where an application of yours hands out rights that end soon."}));
  out->push_back(
      Text("tls.certificate_file", FIELD(tls.certificate_file), "a PEM file, or empty",
           {"", "Certificate chain of gRPC and HTTP; empty: no encryption. It is read again when it changes.",
            "Wherever calls come over a network."}));
  out->push_back(Text(
      "tls.key_file", FIELD(tls.key_file), "a PEM file, or empty",
      {"", "Private key of tls.certificate_file. It is read again when it changes.", "With tls.certificate_file."}));
  out->push_back(Text("tls.client_ca_file", FIELD(tls.client_ca_file), "a PEM file, or empty",
                      {"",
                       "Authorities of client certificates; a connection without such a certificate is refused. Empty: "
                       "no certificate is asked for. It is read again when it changes.",
                       "Where callers have certificates of their own."}));
}

void AddStore(std::vector<Option>* out) {
  out->push_back(Whole("store.memory_bytes", FIELD(engine.store.memory_bytes), 16 * kMiB, 1'024 * kGiB,
                       {"bytes", "Block cache and write buffers of the store together.",
                        "Raise it for galleries of many millions of items; costs RAM."}));
  out->push_back(Whole("store.background_threads", FIELD(engine.store.background_threads), 1, 64,
                       {"threads", "Threads for flush and compaction.",
                        "Raise it when lightcone_store_stalled is 1 during bulk loads; costs CPU beside searches."}));
  out->push_back(Choice(
      "store.damage",
      [](const ServerConfig& c) { return std::string(c.engine.store.accept_damage ? "accept" : "refuse"); },
      [](ServerConfig& c, const std::string& v) { c.engine.store.accept_damage = v == "accept"; }, {"refuse", "accept"},
      {"",
       "What a start does with a store that has lost acknowledged writes. accept: it cuts a damaged log, goes without "
       "missing files, and logs what is lost.",
       "accept, for one start, where no backup exists and `lightcone repair` cannot be used."}));
  out->push_back(Whole("store.reserve_bytes", FIELD(engine.store.reserve_bytes), 0, 1'024 * kGiB,
                       {"bytes",
                        "Space on the disk that is kept for deletes, rollbacks and activations. New data is refused "
                        "before the disk is full. 0: nothing is kept.",
                        "Lower it on a small disk; raise it where store.memory_bytes is large."}));
}

void AddLimits(std::vector<Option>* out) {
  const auto add = [out](std::string name, auto field, int64_t max, std::string unit, std::string help,
                         std::string when, int64_t min = 1) {
    out->push_back(Whole("limits." + name, field, min, max, {std::move(unit), std::move(help), std::move(when)}));
  };
  add("k_max", FIELD(engine.limits.k_max), 1'000'000, "hits", "Largest k of a query.",
      "Raise it for offline evaluation; costs time and memory for each such query.");
  add("queries_max", FIELD(engine.limits.queries_max), 100'000, "queries", "Most queries of one Search.",
      "Lower it when single calls hold the others up.");
  add("batch_items_max", FIELD(engine.limits.batch_items_max), 1'000'000, "items",
      "Most items of one Upsert, Get or Delete.", "Raise it with rpc.message_bytes_max for larger bulk loads.");
  add("payload_bytes_max", FIELD(engine.limits.payload_bytes_max), 1 * kGiB, "bytes", "Longest payload of one item.",
      "Lower it to keep applications from storing documents in the gallery.", /*min=*/2);
  add("id_bytes_max", FIELD(engine.limits.id_bytes_max), 512, "bytes", "Longest name of an item.",
      "Lower it to enforce a naming scheme.");
  add("input_bytes_max", FIELD(engine.limits.input_bytes_max), 1 * kGiB, "bytes",
      "Largest raw input (image or tensor) of one item or query.", "Raise it for very large images.");
  add("text_bytes_max", FIELD(engine.limits.text_bytes_max), 64 * kMiB, "bytes",
      "Longest text of one item or query that an encoder embeds.", "Lower it to what your text model reads.");
  add("image_pixels_max", FIELD(engine.limits.image_pixels_max), int64_t{1} << 40, "pixels",
      "Largest image that is decoded: width x height, by the file's header.",
      "Raise it for very large images; a decoded pixel takes up to 16 bytes in the process of an encoder.");
  add("ef_max", FIELD(engine.limits.ef_max), 10'000'000, "nodes", "Largest ef of a query.",
      "Lower it to bound the time of one search.");
  add("page_items_max", FIELD(engine.limits.page_items_max), 1'000'000, "items", "Largest page of Scroll.",
      "Rarely: pages are cut at 3 MiB anyway.");
  add("answer_bytes_max", FIELD(engine.limits.answer_bytes_max), 2 * kGiB - 1, "bytes",
      "Largest answer of one Get or Search; a larger one is answered RESOURCE_EXHAUSTED.",
      "Raise it for whole rankings or many vectors in one answer; each call in flight may hold a few times as much "
      "memory.");
  add("collections_max", FIELD(engine.limits.collections_max), 100'000, "collections", "Most collections.",
      "Raise it for one collection a tenant; each costs some memory and open files.");
  add("generations_max", FIELD(engine.limits.generations_max), 100'000, "generations",
      "Most generations of one collection, retired ones included.",
      "Raise it for a model a day over many years; each costs some memory.");
  add("manifest_bytes_max", FIELD(engine.limits.manifest_bytes_max), 16 * kMiB, "bytes",
      "Longest manifest that Register takes.", "Raise it for manifests with long notes; all are held in memory.",
      /*min=*/2);
  add("encoder_bytes_max", FIELD(engine.limits.encoder_bytes_max), 2 * kGiB - 1, "bytes",
      "Largest encoder file that Register takes.", "Raise it, and rpc.message_bytes_max, for very large models.");
  add("adapter_bytes_max", FIELD(engine.limits.adapter_bytes_max), 1 * kGiB, "bytes",
      "Largest adapter file that PutAdapter takes.", "Raise it, and rpc.message_bytes_max, for very wide adapters.");
  add("adapters_max", FIELD(engine.limits.adapters_max), 10'000, "adapters", "Most adapters of one collection.",
      "Raise it for long lines of generations; all adapters are held in memory.");
  add("probes_max", FIELD(engine.limits.probes_max), 100'000, "probes", "Most probes of one set.",
      "Raise it for narrower intervals; a validation takes longer.");
  add("probe_set_bytes_max", FIELD(engine.limits.probe_set_bytes_max), 1 * kGiB, "bytes",
      "Largest probe set: its vectors and inputs.",
      "Raise it, and rpc.message_bytes_max, for many probes with long vectors or images.");
  add("write_rows_per_second", FIELD(write_rows_per_second), 1'000'000'000, "rows",
      "Rows that all upserts may write each second; more are answered RESOURCE_EXHAUSTED. 0: no limit.",
      "Set it where bulk loads slow searches down.", /*min=*/0);
  add("write_bytes_per_second", FIELD(write_bytes_per_second), 4'000'000'000, "bytes",
      "Bytes of these rows each second. 0: no limit.", "As limits.write_rows_per_second, for rows of many sizes.",
      /*min=*/0);
}

void AddRpc(std::vector<Option>* out) {
  out->push_back(Whole("rpc.message_bytes_max", FIELD(message_bytes_max), 64 * kKiB, std::numeric_limits<int>::max(),
                       {"bytes", "Largest request; an encoder travels in one.",
                        "Raise it for larger encoders; each call in flight may hold as much memory."}));
  out->push_back(Whole("rpc.parsed_bytes_max", FIELD(parsed_bytes_max), 1 * kMiB, 1'024 * kGiB,
                       {"bytes",
                        "Memory of the requests of all calls, once parsed; further ones are answered "
                        "RESOURCE_EXHAUSTED.",
                        "Raise it with rpc.message_bytes_max; lower it on a machine with little memory."}));
  out->push_back(Whole("rpc.stream_batches_max", FIELD(stream_batches_max), 1, 1'024,
                       {"batches", "Batches of one UpsertStream that are read ahead.",
                        "Raise it when the network between client and server is slow; costs memory."}));
  const auto lane = [out](std::string name, auto threads, auto queue, const std::string& what) {
    out->push_back(Whole("rpc." + name + "_threads", threads, 1, 1'024,
                         {"threads", "Number of " + what + " that run at once.",
                          "Raise it when lightcone_lane_queued_calls stays above 0 while CPUs are idle."}));
    out->push_back(
        Whole("rpc." + name + "_queue_max", queue, 1, 1'000'000,
              {"calls", "Number of " + what + " that may wait; further ones are answered RESOURCE_EXHAUSTED.",
               "Lower it when late answers are useless to your clients."}));
  };
  lane("read", FIELD(read_lane.threads), FIELD(read_lane.queue_max), "searches, reads and pages");
  lane("write", FIELD(write_lane.threads), FIELD(write_lane.queue_max), "upserts and deletes");
  const auto waits = [out](std::string name, auto field, const std::string& what) {
    const auto of = [field](const ServerConfig& c) -> const LaneConfig& { return field(const_cast<ServerConfig&>(c)); };
    out->push_back(Number(
        "rpc." + name + "_wait_seconds_max", [of](const ServerConfig& c) { return of(c).wait_seconds_max; },
        [field](ServerConfig& c, double v) { field(c).wait_seconds_max = v; }, 0.001, 3'600,
        {"seconds",
         "Longest time that " + what +
             " may be expected to wait; a call that would wait longer is answered "
             "RESOURCE_EXHAUSTED at once.",
         "Lower it where late answers are useless; raise it for many clients that each wait for an answer."}));
    out->push_back(Number(
        "rpc." + name + "_overload_wait_seconds_max",
        [of](const ServerConfig& c) { return of(c).overload_wait_seconds_max; },
        [field](ServerConfig& c, double v) { field(c).overload_wait_seconds_max = v; }, 0.001, 3'600,
        {"seconds", "The same bound while more calls come than are done; never below the mean time of one call.",
         "Raise it where answers may be late and clients do not retry."}));
  };
  waits("read", FIELD(read_lane), "searches, reads and pages");
  waits("write", FIELD(write_lane), "upserts and deletes");
  lane("operate", FIELD(operate_lane.threads), FIELD(operate_lane.queue_max), "operator calls");
  lane("wait", FIELD(wait_lane.threads), FIELD(wait_lane.queue_max),
       "long calls (snapshots, rebuilds, searches that wait)");
  out->push_back(Whole("rpc.watch_threads", FIELD(watch_threads), 1, 64,
                       {"threads", "Threads that look for all watches; many watches are told of news later.",
                        "Rarely: a look takes microseconds."}));
  out->push_back(Whole("rpc.watches_max", FIELD(watches_max), 1, 1'000'000,
                       {"watches", "Watch streams that may be open; further ones are answered RESOURCE_EXHAUSTED.",
                        "Raise it for very many dashboards; each takes some 20 KiB."}));
  out->push_back(Whole(
      "engine.write_queue_max", FIELD(engine.write_queue_max), 1, 1'000'000,
      {"batches", "Batches that may wait for the writer of one collection.", "Lower it to hear of overload earlier."}));
  out->push_back(Whole("engine.adapted_rows_bytes_max", FIELD(engine.adapted_rows_bytes_max), 0, int64_t{1} << 40,
                       {"bytes", "Memory for gallery rows that item adapters have carried; 0: none.",
                        "Raise it when a gallery that only an item adapter reaches does not fit; costs RAM."}));
  out->push_back(Whole("engine.carried_disk_bytes_max", FIELD(engine.carried_disk_bytes_max), 0, int64_t{1} << 50,
                       {"bytes", "Disk for sealed segments that item adapters have carried over; 0: none.",
                        "Raise it when a gallery does not fit; lower it to keep disk for writes."}));
}

void AddDevice(std::vector<Option>* out) {
  out->push_back(Choice(
      "engine.gpu", [](const ServerConfig& c) { return c.device.mode == DeviceMode::kOff ? "off" : "auto"; },
      [](ServerConfig& c, const std::string& v) { c.device.mode = v == "off" ? DeviceMode::kOff : DeviceMode::kAuto; },
      {"auto", "off"},
      {"", "Device that scans sealed segments; auto: a CUDA device that is found and gives right answers at the start.",
       "off where the device is for others. The log and lightcone_gpu_info say what serves, and why."}));
  out->push_back(Whole("engine.gpu_memory_bytes_max", FIELD(device.memory_bytes_max), 0, int64_t{1} << 50,
                       {"bytes",
                        "Memory of the device that segments may take, at least 16777216; what does not fit stays with "
                        "the CPU. 0: nine tenths of what is free at the start.",
                        "Set it where the device is shared."}));
  out->push_back(Choice(
      "engine.gpu_storage", [](const ServerConfig& c) { return std::string(DeviceStorageName(c.device.storage)); },
      [](ServerConfig& c, const std::string& v) { c.device.storage = *ParseDeviceStorage(v); }, {"float32", "fp16"},
      {"", "Type of the rows on the device; answers are the same.",
       "float32 where rows are so much alike that fp16 lets many through (lightcone_gpu_incomplete_total rises)."}));
}

void AddLiveRecall(std::vector<Option>* out) {
  out->push_back(Number(
      "recall.sample_share", [](const ServerConfig& c) { return c.engine.live_recall.sample_share; },
      [](ServerConfig& c, double v) { c.engine.live_recall.sample_share = v; }, 0, 1,
      {"", "Share of the searches that are repeated exactly in the background, for lightcone_live_recall; 0: none.",
       "Raise it where few searches come, so that the figure moves sooner."}));
  out->push_back(Number(
      "recall.capacity_share_max", [](const ServerConfig& c) { return c.engine.live_recall.capacity_share_max; },
      [](ServerConfig& c, double v) { c.engine.live_recall.capacity_share_max = v; }, 0, 1,
      {"", "Largest share of all cores' time for these repetitions; further ones are dropped and counted.",
       "Raise it for large galleries, where one exact search takes long; costs CPU beside searches."}));
  out->push_back(Whole(
      "recall.queue_max", FIELD(engine.live_recall.queue_max), 1, 1'000'000,
      {"searches", "Searches that may wait to be repeated.", "Rarely: a dropped search is as good as a kept one."}));
}

void AddEncoder(std::vector<Option>* out) {
  out->push_back(Whole("encoder.threads", FIELD(engine.encoder_threads), 1, 256,
                       {"threads", "Threads that embed raw inputs.", "Raise it when the server embeds most inputs."}));
  out->push_back(Whole("encoder.batch_max", FIELD(engine.encoder_batch_max), 1, 4'096,
                       {"inputs", "Inputs of concurrent calls that are embedded together.",
                        "Raise it for throughput, lower it for latency and memory."}));
  out->push_back(Number(
      "encoder.linger_seconds", [](const ServerConfig& c) { return absl::ToDoubleSeconds(c.engine.encoder_linger); },
      [](ServerConfig& c, double v) { c.engine.encoder_linger = absl::Seconds(v); }, 0, 10,
      {"seconds", "Time that a batch waits for further inputs before it is embedded.",
       "0 for the lowest latency of single queries."}));
  out->push_back(
      Whole("encoder.queue_max", FIELD(engine.encoder_queue_max), 1, 1'000'000,
            {"inputs",
             "Inputs that may wait to be embedded; more are answered RESOURCE_EXHAUSTED. Those of a backfill by "
             "an endpoint do not count.",
             "Lower it when late answers are useless."}));
  out->push_back(Whole("encoder.pixels_max", FIELD(engine.encoder_pixels_max), 1, int64_t{1} << 50,
                       {"pixels",
                        "Pixels of the images of all calls in flight that are embedded; a call with more is answered "
                        "RESOURCE_EXHAUSTED. Keep it above limits.image_pixels_max.",
                        "Raise it for large batches of large images; lower it to bound the time that images take."}));
  out->push_back(
      Whole("encoder.processes_max", FIELD(engine.encoder_processes_max), 1, 256,
            {"processes",
             "Encoders that embed raw inputs of calls at once, each in a process of its own. A process ends after "
             "5 minutes without an input.",
             "Raise it where inputs of more generations come at the same time. Each process takes memory."}));
  out->push_back(Number(
      "encoder.run_seconds_max",
      [](const ServerConfig& c) { return absl::ToDoubleSeconds(c.engine.encoder_run_time_max); },
      [](ServerConfig& c, double v) { c.engine.encoder_run_time_max = absl::Seconds(v); }, 1, 86'400,
      {"seconds",
       "Longest time of an encoder for loading, or for one batch of a call's inputs. A slower process counts as hung "
       "and is ended.",
       "Raise it for slower encoders. Lower encoder.batch_max first."}));
  out->push_back(Whole("encoder.memory_bytes_max", FIELD(engine.encoder_memory_bytes_max), 0, int64_t{1} << 50,
                       {"bytes", "Memory that the process of an encoder may ask for; 0: no limit.",
                        "Raise it for encoders that need more."}));
  out->push_back(
      Whole("encoder.refresh_items_per_second_max", FIELD(engine.refresh_items_per_second_max), 0, 1'000'000,
            {"items/s",
             "Stored inputs that searches with `refresh_top` may have embedded, of all collections together; 0: such "
             "searches are refused.",
             "Lower it where embeddings cost money, or where searches with `refresh_top` slow others down."}));
  out->push_back(Choice(
      "encoder.sandbox", [](const ServerConfig& c) { return std::string(LockModeName(c.engine.encoder_sandbox)); },
      [](ServerConfig& c, const std::string& v) {
        ParseLockMode(v, "encoder.sandbox", &c.engine.encoder_sandbox).IgnoreError();
      },
      {kLockModeNames.begin(), kLockModeNames.end()},
      {"",
       "Whether the process of an encoder locks itself in, without files, network and programs, before it loads the "
       "encoder, and that of a training below its folders; auto: where the kernel can (seccomp; trainings: Landlock, "
       "too), else the log says why not; require: there, else no input is embedded and nothing is trained.",
       "require where callers bring encoders that you did not make; off to debug an encoder of your own."}));
}

void AddForeignCode(std::vector<Option>* out) {
  out->push_back(Choice(
      "encoder.uploads", [](const ServerConfig& c) { return c.engine.encoder_uploads ? "allow" : "refuse"; },
      [](ServerConfig& c, const std::string& v) { c.engine.encoder_uploads = v == "allow"; }, {"allow", "refuse"},
      {"",
       "Whether callers may bring the file of an encoder: by Register, or in an uploaded snapshot of which a "
       "collection "
       "is restored. TorchScript is code, which runs locked in (encoder.sandbox).",
       "refuse where models come from this server's trainings, or callers send vectors."}));
  AddEndpointOptions(out);
  Option folders = Text(
      "train.data_folders",
      [](ServerConfig& c) {
        std::string text;
        for (const std::string& folder : c.engine.data_folders) text += (text.empty() ? "" : ":") + folder;
        return text;
      },
      "absolute folders with ':' between them, or empty for none",
      {"",
       "Folders below which a training's recipe may name data sets, models and backbones; empty: a recipe names no "
       "path.",
       "Set it to where your data sets lie. Whoever may start a training can read what lies there."});
  folders.set = [](std::string_view value, ServerConfig* config) {
    return ParseFolders(value, "train.data_folders", &config->engine.data_folders);
  };
  out->push_back(std::move(folders));
}

void AddHelper(std::vector<Option>* out) {
  out->push_back(
      Whole("helper.threads", FIELD(engine.helper_threads), 1, 256,
            {"threads",
             "Threads of a helper process, which fits an adapter, trains a model or embeds a backfill at low "
             "priority.",
             "Raise it where cores are idle and adapters are awaited."}));
  out->push_back(Whole(
      "helper.niceness", FIELD(engine.helper_niceness), 0, 19,
      {"",
       "Niceness of a helper process; a backfill's encoder has 4 more. From 19 on it is in the kernel's idle class, "
       "which runs when nothing else does.",
       "Lower it where trainings starve beside searches that never pause; searches then wait for it now and then."}));
  out->push_back(Whole("helper.memory_bytes_max", FIELD(engine.helper_memory_bytes_max), 0, int64_t{1} << 50,
                       {"bytes", "Memory that a helper process may ask for; 0: no limit.",
                        "Set it where a training must not push the server's cache out of memory."}));
  out->push_back(Number(
      "helper.embed_seconds_max",
      [](const ServerConfig& c) { return absl::ToDoubleSeconds(c.engine.helper_embed_time_max); },
      [](ServerConfig& c, double v) { c.engine.helper_embed_time_max = absl::Seconds(v); }, 1, 86'400,
      {"seconds",
       "Longest time of an encoder for one batch of a backfill or of a fit with --embed. A slower process counts as "
       "hung and is ended.",
       "Raise it for slower encoders."}));
}

void AddBackup(std::vector<Option>* out) {
  out->push_back(Text("backup.folder", FIELD(backup.folder), "a folder, or empty for snapshots below the data folder",
                      {"", "Folder of the snapshots; empty: DATA/snapshots.",
                       "A folder on the data's file system makes snapshots by hard links; on another one every file is "
                       "copied."}));
  out->push_back(Number(
      "backup.every", [](const ServerConfig& c) { return absl::ToDoubleSeconds(c.backup.every); },
      [](ServerConfig& c, double v) { c.backup.every = absl::Seconds(v); }, 0, 31'622'400,
      {"seconds", "Time between two snapshots of the schedule, each of which is verified; 0: no schedule.",
       "3600 makes one an hour. A verification reads every byte of the data."}));
  out->push_back(Whole("backup.keep", FIELD(backup.keep), 1, 10'000,
                       {"snapshots",
                        "Snapshots of the schedule that are kept; the newest verified one always is. Others are never "
                        "deleted.",
                        "Raise it to go back further; old snapshots keep files that the server has replaced."}));
}

void AddIndex(std::vector<Option>* out) {
  ForEachIndexSetting([out]<typename T>(const IndexSetting<T>& one) {
    const std::string key = StrCat("index.", one.name);
    Texts texts = {one.unit, one.help, one.when};
    const auto setting = one.setting;
    if constexpr (std::is_enum_v<T>) {
      out->push_back(Choice(
          key, [setting](const ServerConfig& c) { return std::string(SettingName(c.index.*setting)); },
          [setting](ServerConfig& c, const std::string& v) { c.index.*setting = *ParseSettingName<T>(v); },
          {kSettingNames<T>.begin(), kSettingNames<T>.end()}, std::move(texts)));
    } else if constexpr (std::is_floating_point_v<T>) {
      out->push_back(Number(
          key, [setting](const ServerConfig& c) { return c.index.*setting; },
          [setting](ServerConfig& c, double v) { c.index.*setting = v; }, one.low, one.high, std::move(texts)));
    } else {
      out->push_back(Whole(
          key, [setting](ServerConfig & c) -> auto& { return c.index.*setting; }, one.low, one.high, std::move(texts)));
    }
  });
  out->push_back(Whole("index.memory_bytes_max", FIELD(engine.index_memory_bytes_max), 0, int64_t{1} << 50,
                       {"bytes",
                        "Memory that searches of one collection may need; a collection that needs more is not "
                        "served. 0: no limit.",
                        "Set it where galleries outgrow memory: auto then chooses ivf."}));
  out->push_back(
      Whole("index.unsealed_bytes_max", FIELD(engine.index_unsealed_bytes_max), 0, int64_t{1} << 50,
            {"bytes",
             "Rows of one collection that may wait in memory to be sealed; above it writes of items wait, and "
             "are refused where sealing fails. 0: no limit.",
             "Lower it where memory is short; raise it for bursts longer than the builder keeps up with."}));
  out->push_back(Whole(
      "index.build_bytes_per_second_max", FIELD(engine.index_build_bytes_per_second_max), 0, int64_t{1} << 50,
      {"bytes/s",
       "Bytes that the builders of all collections write together, without those of adapters. The limit does not hold "
       "while writes wait for room. 0: no limit.",
       "A third of what the disk writes, where searches read from it or writes are synced to it."}));
}

#undef FIELD

std::string Spelled(std::string_view key, char separator, bool upper) {
  std::string out;
  for (const char c : key) {
    out.push_back(c == '.' || c == '_' ? separator : upper ? static_cast<char>(std::toupper(c)) : c);
  }
  return out;
}

}  // namespace

std::string Option::Flag() const { return "--" + Spelled(key, '-', false); }
std::string Option::Environment() const { return "LIGHTCONE_" + Spelled(key, '_', true); }

const std::vector<Option>& OptionTable() {
  static const auto* const table = [] {
    auto* out = new std::vector<Option>;
    AddServer(out);
    AddConsole(out);
    AddTrust(out);
    AddAudit(out);
    AddTrace(out);
    AddStore(out);
    AddLimits(out);
    AddRpc(out);
    AddLiveRecall(out);
    AddEncoder(out);
    AddForeignCode(out);
    AddHelper(out);
    AddBackup(out);
    AddDevice(out);
    AddIndex(out);
    return out;
  }();
  return *table;
}

const Option* FindOption(std::string_view key) {
  for (const Option& option : OptionTable()) {
    if (option.key == key) return &option;
  }
  return nullptr;
}

}  // namespace lightcone::server
