#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder_for_test.h"
#include "cli/run_for_test.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

using testing::HasSubstr;

TEST(Plan, PrintsATableWithinAPage) {
  const Ran ran =
      run_for_test({"plan", "Llama-3.1-8B", "--instance", "trn1.32xlarge", "p5.48xlarge", "--count", "2",
                    "--seq", "8192", "--global-batch", "128", "--tokens", "1e12", "--explain", "1"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* word :
       {"8.0B parameters", "$/Mtok", "hours", "80 % interval", "Plan 1", "bound by", "p5.48xlarge: 55.04"})
    EXPECT_THAT(ran.out, HasSubstr(word));
  EXPECT_LE(longest_line(ran.out), 130u);
}

TEST(Plan, JsonHoldsValuesWithBoundsAndSources) {
  const Ran ran = run_for_test({"plan", "Llama-3.1-8B", "--instance", "trn2.48xlarge", "--seq", "4096",
                                "--global-batch", "64", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  const auto& plan = json["plans"][0];
  EXPECT_LT(plan["step_s"]["low"], plan["step_s"]["value"]);
  EXPECT_GT(plan["step_s"]["high"], plan["step_s"]["value"]);
  EXPECT_THAT(plan["step_s"]["source"].get<std::string>(), HasSubstr("widened"));
  EXPECT_TRUE(plan["usd_per_million_tokens"].is_null());  // AWS publishes no on-demand rate of Trn2
  double sum = 0;
  for (const auto& [cause, bytes] : plan["memory_by_cause"].items()) sum += bytes.get<double>();
  EXPECT_NEAR(sum, plan["memory_bytes"]["value"], 1);
}

TEST(Plan, PricesWithADateAndMarksWhatIsStale) {
  const std::vector<const char*> words = {"plan",  "Llama-3.1-8B", "--instance",     "p4d.24xlarge",
                                          "--seq", "4096",         "--global-batch", "64"};
  const auto with = [&](std::vector<const char*> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_for_test(more).out;
  };
  EXPECT_THAT(with({}), HasSubstr("21.957642 USD/h on_demand, us-east-1"));
  EXPECT_THAT(with({"--as-of", "2025-01"}), HasSubstr("32.7726 USD/h on_demand"));
  EXPECT_THAT(with({"--price", "capacity_block"}), HasSubstr("STALE"));
  EXPECT_THAT(with({"--price", "reserved"}),
              HasSubstr("nothing is priced; --price on_demand or capacity_block is"));
  const Ran served =
      run_for_test({"plan", "Llama-3.1-8B", "--serve", "--instance", "p4d.24xlarge", "--prompt-tokens", "512",
                    "--output-tokens", "64", "--price", "capacity_block"});
  EXPECT_THAT(served.out, HasSubstr("list of 2024-12 (STALE"));
}

TEST(Plan, CountsFailuresInHoursAndDollars) {
  const std::vector<const char*> words = {
      "plan",           "Llama-3.1-70B", "--instance", "p5.48xlarge", "--count", "512", "--seq", "8192",
      "--global-batch", "2048",          "--tokens",   "1e13",        "--top",   "1",   "--json"};
  const auto plan = [&](std::vector<const char*> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const Ran ran = run_for_test(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out)["plans"][0];
  };
  const auto without = plan({}), with = plan({"--reliability", "llama3"});
  const double goodput = with["goodput"]["value"];
  EXPECT_GT(goodput, 0.9);
  EXPECT_LT(goodput, 1);
  EXPECT_EQ(with["step_s"], without["step_s"]);
  EXPECT_NEAR(with["hours"]["value"].get<double>() * goodput, without["hours"]["value"], 1e-6);
  EXPECT_NEAR(with["usd_per_million_tokens"]["value"].get<double>() * goodput,
              without["usd_per_million_tokens"]["value"], 1e-9);
  EXPECT_GT(with["hours"]["high"], without["hours"]["high"]);
}

TEST(Plan, PageHoldsThePlansAndASchedule) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "plan.html";
  const Ran ran =
      run_for_test({"plan", "Llama-3.1-8B", "--instance", "p5.48xlarge", "p4d.24xlarge", "--count", "2",
                    "--seq", "8192", "--global-batch", "128", "--pp", "4", "--html", path.c_str(), "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::ifstream file(path);
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str(), open = "id=\"data\">";
  const size_t start = text.find(open) + open.size();
  const auto data = nlohmann::json::parse(text.substr(start, text.find("</script>", start) - start));
  EXPECT_EQ(data["plans"], nlohmann::json::parse(ran.out)["plans"]);
  const auto& schedule = data["schedule"];
  EXPECT_EQ(schedule["stages"], 4);
  const int64_t chunks = data["plans"][0]["layout"]["vpp"];
  EXPECT_EQ(schedule["events"].size(), schedule["shown"].get<int64_t>() * 4 * chunks * 2);
  for (const auto& event : schedule["events"]) EXPECT_LE(event[5], schedule["total_s"]);
  EXPECT_THAT(run_for_test({"plan", "Llama-3.1-8B", "--instance", "p5.48xlarge", "--seq", "8192",
                            "--global-batch", "128", "--html", "/nowhere/plan.html"})
                  .err,
              HasSubstr("[cli.output]"));
}

TEST(Plan, SaysWhatIsPossible) {
  const auto error = [](std::vector<const char*> words) {
    words.insert(words.begin(), "plan");
    const Ran ran = run_for_test(words);
    EXPECT_NE(ran.code, 0);
    return ran.err;
  };
  EXPECT_THAT(error({}), HasSubstr("plan.model"));
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "p5.48xlarge", "--seq", "1024", "--global-batch", "8",
                     "--spares", "2"}),
              HasSubstr("[plan.reliability]"));
  EXPECT_THAT(error({"Llama-3.1-8"}), HasSubstr("Llama-3.1-8B"));
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "p5.48xlarge"}), HasSubstr("--seq"));
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "p6.48xlarge", "--seq", "1024", "--global-batch", "8"}),
              HasSubstr("p5.48xlarge"));
  const std::string memory =
      error({"Llama-3.1-405B", "--instance", "p5.48xlarge", "--seq", "8192", "--global-batch", "64"});
  EXPECT_THAT(memory, HasSubstr("[plan.memory]"));
  // The number that it names has room, and half of it does not.
  const size_t at = memory.find("--count ");
  ASSERT_NE(at, std::string::npos) << memory;
  const int count = std::stoi(memory.substr(at + 8));
  const auto ran = [](const std::string& number) {
    return run_for_test({"plan", "Llama-3.1-405B", "--instance", "p5.48xlarge", "--count", number.c_str(),
                         "--seq", "8192", "--global-batch", "64", "--top", "1"});
  };
  EXPECT_EQ(ran(std::to_string(count)).code, 0);
  EXPECT_NE(ran(std::to_string(count / 2)).code, 0);
  // Nobody published the network of several of these.
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "inf2.xlarge", "--seq", "4096", "--global-batch", "8"}),
              HasSubstr("more memory"));
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "p4d.24xlarge", "--seq", "4096", "--global-batch", "64",
                     "--precision", "fp8"}),
              HasSubstr("try: --precision bf16"));
  EXPECT_THAT(error({"Llama-3.1-8B", "--instance", "p5.48xlarge", "--seq", "8192", "--global-batch", "8",
                     "--tp", "3"}),
              HasSubstr("[plan.layout]"));
}

// The name that Hugging Face has, what the whole run costs, and what is not as it was asked for.
TEST(Plan, SaysWhatARunCostsAndWhoseItsTimeIs) {
  const auto planned = [](std::vector<const char*> more) {
    std::vector<const char*> words = {"plan", "meta-llama/Llama-3.1-8B", "--instance", "p5.48xlarge", "--seq",
                                      "4096", "--global-batch",          "64",         "--top",       "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_for_test(words);
  };
  const auto found = nlohmann::json::parse(planned({"--tokens", "1e9", "--json"}).out)["plans"][0];
  EXPECT_NEAR(found["usd"]["value"].get<double>(),
              1000 * found["usd_per_million_tokens"]["value"].get<double>(), 1e-6);
  EXPECT_NEAR(found["usd"]["value"].get<double>(), 55.04 * found["hours"]["value"].get<double>(), 0.01);
  EXPECT_THAT(planned({"--tokens", "1e9"}).out, HasSubstr("USD"));
  EXPECT_THAT(planned({"--compiled", "1"}).out, HasSubstr("OpenTrn compiles for NeuronCores alone"));
  const TemporaryFolderForTest folder;
  const std::string into = folder.path().string();
  EXPECT_THAT(planned({"--export", "jax", "-o", into.c_str()}).out,
              HasSubstr("Its step is that of program megatron-core"));
}

struct JobFile : testing::Test {
  Ran run(const std::string& text, std::vector<const char*> more = {}) {
    const std::string path = folder.path() / "job.yaml";
    std::ofstream(path) << text;
    more.insert(more.begin(), {"plan", path.c_str()});
    return run_for_test(more);
  }
  TemporaryFolderForTest folder;
  std::string job =
      "model: Llama-3.1-8B\ndata: {seq: 8192, global_batch: 64, tokens: 1e12}\n"
      "cluster: {instance: [trn1.32xlarge, p5.48xlarge], count: 1..2}\nfix: {tp: 8}\nprice: {as_of: "
      "2025-01}\n";
};

TEST_F(JobFile, IsTheSameAsTheOptions) {
  const Ran file = run(job);
  ASSERT_EQ(file.code, 0) << file.err;
  const Ran options = run_for_test({"plan", "Llama-3.1-8B", "--seq", "8192", "--global-batch", "64",
                                    "--tokens", "1e12", "--instance", "trn1.32xlarge", "p5.48xlarge",
                                    "--count", "1", "2", "--tp", "8", "--as-of", "2025-01"});
  EXPECT_EQ(file.out, options.out);
}

TEST_F(JobFile, TakesWhatTheOptionsTake) {
  const Ran file = run(
      "model: Llama-3.1-8B\ndata: {seq: 4096, global_batch: 64, tokens: 1e12}\n"
      "cluster: {instance: trn2.48xlarge, count: 2, lnc: 1}\nfix: {pp: 2, schedule: [zb-h1], offload: on}\n"
      "reliability: {profile: llama3, checkpoint_gb_s: 0.5, restart_s: 0.5, spares: 0}\n");
  ASSERT_EQ(file.code, 0) << file.err;
  const Ran options = run_for_test({"plan",
                                    "Llama-3.1-8B",
                                    "--seq",
                                    "4096",
                                    "--global-batch",
                                    "64",
                                    "--tokens",
                                    "1e12",
                                    "--instance",
                                    "trn2.48xlarge",
                                    "--count",
                                    "2",
                                    "--lnc",
                                    "1",
                                    "--pp",
                                    "2",
                                    "--schedule",
                                    "zb-h1",
                                    "--offload",
                                    "--reliability",
                                    "llama3",
                                    "--checkpoint-gb-s",
                                    "0.5",
                                    "--restart-s",
                                    "0.5",
                                    "--spares",
                                    "0"});
  EXPECT_EQ(file.out, options.out);
  EXPECT_THAT(file.out, HasSubstr("ZB-H1"));
}

TEST_F(JobFile, ErrorsNameTheLineAndTheKey) {
  EXPECT_THAT(run(job + "nodes: 3\n").err, HasSubstr("line 6: 'the job file' has no key 'nodes'"));
  EXPECT_THAT(run("model: x\ndata:\n  sequence: 1\n").err, HasSubstr("line 3: 'data' has no key 'sequence'"));
  EXPECT_THAT(run("model: x\ndata: {seq: many}\n").err, HasSubstr("line 2: 'seq' is 'many'"));
  EXPECT_THAT(run(job + "fix: {tp: 4}\n").err, HasSubstr("line 6: 'fix' stands there twice"));
  EXPECT_THAT(run(job, {"--seq", "1024"}).err, HasSubstr("also on the command line"));
  EXPECT_THAT(run("model: [\n").err, HasSubstr("no YAML"));
  EXPECT_THAT(run("data: {seq: 8}\n").err, HasSubstr("no 'model'"));
  EXPECT_THAT(run("model: x\ncluster: {count: 8..2}\n").err, HasSubstr("smaller number first"));
}

TEST(Plan, ServesWithinLimitsAndSaysWhatMissesThem) {
  const std::vector<const char*> words = {"plan",       "Llama-3.1-8B",    "--serve",
                                          "--instance", "inf2.48xlarge",   "--prompt-tokens",
                                          "1024",       "--output-tokens", "256"};
  const auto with = [&](std::vector<const char*> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run_for_test(more);
  };
  const Ran table = with({"--rate", "20"});
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* word : {"TTFT", "TPOT", "tokens/s", "$/Mtok", "instances", "12.98127 USD/h", "copies"})
    EXPECT_THAT(table.out, HasSubstr(word));
  EXPECT_LE(longest_line(table.out), 130u);
  const Ran seven = with({"--tp", "7"});
  EXPECT_EQ(seven.code, 2);
  EXPECT_THAT(seven.err, HasSubstr("divides its 24 ranks"));
  const Ran ran = with({"--slo", "tpot=40", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const auto& plan : nlohmann::json::parse(ran.out)["plans"]) {
    EXPECT_LE(plan["tpot_s"]["value"], 0.040);
    EXPECT_LT(plan["tpot_s"]["low"], plan["tpot_s"]["high"]);
    const double usd = plan["usd_per_million_output_tokens"]["value"];
    EXPECT_NEAR(usd * plan["output_tokens_s"]["value"].get<double>() * 3600 / 1e6, 12.98127, 1e-6);
    double sum = 0;
    for (const auto& [cause, bytes] : plan["memory_by_cause"].items()) sum += bytes.get<double>();
    EXPECT_NEAR(sum, plan["memory_bytes"]["value"], 1);
  }
  const Ran missed = with({"--slo", "tpot=0.01"});
  EXPECT_EQ(missed.code, 3);
  EXPECT_THAT(missed.err, HasSubstr("plan.slo"));
  EXPECT_THAT(missed.err, HasSubstr("the nearest"));
  EXPECT_THAT(with({"--seq", "128"}).err, HasSubstr("--seq with --serve"));
  EXPECT_THAT(run_for_test({"plan", "Llama-3.1-8B", "--prompt-tokens", "8"}).err,
              HasSubstr("only for requests, which --serve plans for"));
  EXPECT_THAT(run_for_test({"plan", "BERT-Large", "--serve", "--instance", "inf2.xlarge", "--prompt-tokens",
                            "8", "--output-tokens", "8"})
                  .err,
              HasSubstr("does not generate"));
}

TEST(Plan, ReplaysATraceInTheTimesOfThePlan) {
  const TemporaryFolderForTest folder;
  const std::string trace = (folder.path() / "trace.csv").string();
  std::ofstream file(trace);
  file << "arrival_s,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 40; ++i) file << 0.5 * i << "," << 500 + i << "," << 60 << "\n";
  file.close();
  const Ran ran = run_for_test({"plan", "Llama-3.1-8B", "--serve", "--instance", "inf2.48xlarge", "--trace",
                                trace.c_str(), "--top", "2", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto plan = nlohmann::json::parse(ran.out)["plans"][0];
  EXPECT_EQ(plan["replay"]["requests"], 40);
  // Two requests a second are no load: what a request meets is its own prefill.
  EXPECT_GT(plan["replay"]["ttft_p50_ms"].get<double>(), 900 * plan["prefill_s"]["value"].get<double>());
  EXPECT_LE(plan["replay"]["ttft_p50_ms"], plan["replay"]["ttft_p99_ms"]);
}

TEST(Plan, ExportsWhatTrainingProgramsRead) {
  const TemporaryFolderForTest folder;
  const std::string into = folder.path().string();
  const auto exported = [&](const char* format, std::vector<const char*> more) {
    std::vector<const char*> words = {"plan",     "Llama-3.1-8B", "--instance", "trn1.32xlarge",  "--count",
                                      "2",        "--seq",        "4096",       "--global-batch", "64",
                                      "--export", format,         "-o",         into.c_str()};
    words.insert(words.end(), more.begin(), more.end());
    return run_for_test(words);
  };
  const auto text = [&](const char* name) { return text_of(folder.path() / name); };
  ASSERT_EQ(exported("megatron", {"--tp", "8", "--pp", "1", "--zero", "1"}).code, 0);
  EXPECT_THAT(text("megatron.args"), HasSubstr("--tensor-model-parallel-size 8\n"));
  EXPECT_THAT(text("megatron.args"), HasSubstr("--num-query-groups 8\n"));
  ASSERT_EQ(exported("nxdt", {"--tp", "8", "--pp", "2", "--zero", "1"}).code, 0);
  EXPECT_THAT(text("nxdt.yaml"), HasSubstr("pipeline_model_parallel_size: 2\n"));
  EXPECT_THAT(text("nxdt.yaml"), HasSubstr("devices: 32\n  num_nodes: 2\n"));
  ASSERT_EQ(exported("torchtitan", {"--tp", "8", "--zero", "3", "--pp", "1"}).code, 0);
  EXPECT_THAT(text("train.toml"), HasSubstr("data_parallel_shard_degree = 8\n"));
  ASSERT_EQ(exported("jax", {"--tp", "8", "--pp", "1", "--zero", "1", "--recompute", "full"}).code, 0);
  EXPECT_THAT(text("train.py"), HasSubstr("\"kv_heads\": 8"));
  const Ran pipeline = exported("jax", {"--tp", "8", "--pp", "2", "--zero", "1", "--schedule", "zb-v"});
  EXPECT_EQ(pipeline.code, 2);
  EXPECT_THAT(pipeline.err, HasSubstr("plan.export"));
  EXPECT_THAT(pipeline.err, HasSubstr("--schedule 1f1b, zb-h1, dualpipe or gpipe"));
  // 1F1B is of one program here, which a schedule that is asked for by name is too.
  for (const char* schedule : {"1f1b", "1f1b-ticks"}) {
    const Ran alternating =
        exported("jax", {"--tp", "8", "--pp", "4", "--zero", "1", "--schedule", schedule});
    ASSERT_EQ(alternating.code, 0) << alternating.err;
    EXPECT_THAT(alternating.out, HasSubstr("1F1B in ticks"));
    EXPECT_THAT(text("train.py"), HasSubstr("\"schedule\": \"1f1b\""));
    EXPECT_EQ(text("train.py").find("{{"), std::string::npos);
  }
  ASSERT_EQ(exported("jax", {"--tp", "8", "--pp", "4", "--vpp", "2", "--zero", "1"}).code, 0);
  EXPECT_THAT(text("train.py"), HasSubstr("\"vpp\": 2"));
  ASSERT_EQ(exported("jax", {"--tp", "8", "--pp", "4", "--zero", "1", "--schedule", "gpipe"}).code, 0);
  EXPECT_THAT(text("train.py"), HasSubstr("\"pp\": 4"));
  // A table of which 16 ranks have no equal parts is filled up; a width is not.
  const std::string config = (folder.path() / "config.json").string();
  const auto of_width = [&](int width) {
    std::ofstream(config) << fmt::format(
        R"({{"model_type": "llama", "hidden_size": {}, "num_hidden_layers": 8, "num_attention_heads": 8,
    "head_dim": 128, "num_key_value_heads": 8, "intermediate_size": 1024, "vocab_size": 50257}})",
        width);
    return run_for_test({"plan", config.c_str(), "--instance", "trn1.32xlarge", "--seq", "256",
                         "--global-batch", "64", "--tp", "8", "--pp", "2", "--schedule", "gpipe", "--export",
                         "jax", "-o", into.c_str()});
  };
  ASSERT_EQ(of_width(1024).code, 0);
  EXPECT_THAT(text("train.py"), HasSubstr("\"vocabulary\": 50272"));
  const Ran uneven = of_width(1028);
  EXPECT_EQ(uneven.code, 2);
  EXPECT_THAT(uneven.err, HasSubstr("a width of 1028"));
  EXPECT_THAT(exported("megatron", {"--tp", "8", "--pp", "1", "--zero", "3"}).err, HasSubstr("ZeRO-3"));
}

// What the blocks run again, in the words of the program that has it.
TEST(Plan, RecomputationIsInTheWordsOfItsProgram) {
  const TemporaryFolderForTest folder;
  const std::string into = folder.path().string();
  const auto planned = [&](std::vector<const char*> more) {
    std::vector<const char*> words = {"plan", "Llama-3.1-70B", "--instance", "p5.48xlarge",    "--count",
                                      "8",    "--seq",         "4096",       "--global-batch", "128",
                                      "-o",   into.c_str()};
    words.insert(words.end(), more.begin(), more.end());
    return run_for_test(words);
  };
  const auto text = [&](const char* name) { return text_of(folder.path() / name); };
  const std::vector<const char*> stages = {
      "--tp", "8",       "--pp", "4", "--vpp", "5", "--zero", "1", "--micro-batch", "1", "--recompute-layers",
      "2",    "--export"};
  const auto staged = [&](const char* format) {
    std::vector<const char*> words = stages;
    words.push_back(format);
    return planned(words);
  };
  const Ran some = staged("megatron");
  ASSERT_EQ(some.code, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr("full:2"));
  EXPECT_THAT(
      text("megatron.args"),
      HasSubstr("--recompute-granularity full\n--recompute-method block\n--recompute-num-layers 2\n"));
  EXPECT_THAT(planned({"--recompute-layers", "2", "--zero", "3", "--export", "torchtitan"}).err,
              HasSubstr("[plan.export]"));
  EXPECT_THAT(planned({"--recompute-layers", "2", "--stack", "maxtext", "--export", "maxtext"}).err,
              HasSubstr("[plan.recompute]"));
  EXPECT_THAT(planned({"--recompute", "save_qkv_proj", "--export", "maxtext"}).err,
              HasSubstr("--stack maxtext"));
  const Ran policy = planned({"--stack", "maxtext", "--recompute", "save_qkv_proj", "--zero", "3", "--pp",
                              "1", "--tp", "1", "--export", "maxtext"});
  ASSERT_EQ(policy.code, 0) << policy.err;
  EXPECT_THAT(text("maxtext.yml"), HasSubstr("remat_policy: save_qkv_proj\n"));
  EXPECT_THAT(text("maxtext.yml"), HasSubstr("ici_fsdp_parallelism: 8\ndcn_fsdp_parallelism: 8\n"));
  // A search finds a policy between none, which does not fit, and all.
  const Ran searched = planned({"--stack", "maxtext", "--zero", "3", "--pp", "1", "--tp", "1",
                                "--micro-batch", "2", "--top", "1", "--export", "maxtext"});
  ASSERT_EQ(searched.code, 0) << searched.err;
  EXPECT_EQ(text("maxtext.yml").find("remat_policy: full"), std::string::npos);
}

TEST(Plan, SearchesSchedulesThatAreAskedFor) {
  const auto plans = [](std::vector<const char*> more) {
    std::vector<const char*> words = {
        "plan",  "Llama-3.1-70B",  "--instance", "p5.48xlarge", "--count", "8",    "--seq",
        "8192",  "--global-batch", "64",         "--tp",        "8",       "--pp", "4",
        "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_for_test(words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return nlohmann::json::parse(ran.out)["plans"];
  };
  const auto plain = plans({"--vpp", "1"})[0], split = plans({"--schedule", "zb-h1"})[0];
  EXPECT_EQ(split["layout"]["schedule"], "ZB-H1");
  EXPECT_LT(split["seconds_by_cause"]["bubble"], plain["seconds_by_cause"]["bubble"]);
  EXPECT_LT(plans({"--schedule", "zb-v", "zb-h1", "1f1b"})[0]["step_s"]["value"], plain["step_s"]["value"]);
}

TEST(Plan, CompilesTheLayersOfFinalists) {
  const TemporaryFolderForTest folder;
  const std::string config = (folder.path() / "config.json").string();
  std::ofstream(config) << R"({"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 2048})";
  const Ran ran = run_for_test({"plan", config.c_str(), "--instance", "trn1.2xlarge", "--seq", "256",
                                "--global-batch", "2", "--compiled", "2", "--top", "3", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["machines"][0]["compiled"]["plans"], 2);
  EXPECT_EQ(json["plans"][0]["layers"], "compiled by OpenTrn");
  EXPECT_EQ(json["plans"][2]["layers"], "curves");
  for (const char* name : {"step_by_curves_s", "moved"}) {
    EXPECT_TRUE(json["plans"][0].contains(name));
    EXPECT_FALSE(json["plans"][2].contains(name));
  }
}

// Job files that cannot be: each ends with the key, its line, and what is possible.
TEST(Plan, AJobThatCannotBeIsNamedByKeyAndLine) {
  const std::string head = "model: Llama-3.1-8B\n", data = "data: {seq: 4096, global_batch: 64}\n",
                    cluster = "cluster: {instance: [trn1.32xlarge], count: 1}\n",
                    base = head + data + cluster;
  const auto with = [&](const std::string& line) { return base + line + "\n"; };
  const auto data_of = [&](const std::string& inner) { return head + "data: {" + inner + "}\n" + cluster; };
  struct Case {
    std::string yaml;
    std::vector<const char*> said;
  };
  const std::vector<Case> cases = {
      {with("precison: bf16"), {"line 4", "'precison'", "precision"}},
      {with("precision: int3"), {"line 4", "'precision' is 'int3'", "bf16, fp8, fp32"}},
      {with("model: Llama-2-7B"), {"line 4", "'model' stands there twice"}},
      {with("---\nmodel: Llama-2-7B"), {"line 5", "a second document"}},
      {data_of("sequence: 4096, global_batch: 64"), {"line 2", "'sequence'", "seq"}},
      {data_of("seq: 4096, seq: 8192, global_batch: 64"), {"line 2", "'seq' stands there twice"}},
      {data_of("seq: -4096, global_batch: 64"), {"line 2", "'seq' is '-4096'"}},
      {data_of("seq: .nan, global_batch: 64"), {"line 2", "'seq' is '.nan'"}},
      {data_of("seq: 4096, global_batch: 0"), {"line 2", "'global_batch' is '0'"}},
      {data_of("seq: 4096, global_batch: 64.5"), {"line 2", "'global_batch' is '64.5'"}},
      {data_of("seq: 4096, global_batch: .inf"), {"line 2", "'global_batch' is '.inf'"}},
      {data_of("seq: 4096, global_batch: many"), {"line 2", "'global_batch' is 'many'"}},
      {data_of("global_batch: 64"), {"line 2", "'data'", "--seq is 0"}},
      {"model: GPT-3 175B\ndata: {seq: 4096, global_batch: 64}\n" + cluster,
       {"line 2", "'data'", "--seq is 4096", "learned positions for 2048"}},
      {"model: Lama-3.1-8B\n" + data + cluster, {"line 1", "'model'", "Lama-3.1-8B", "Llama-3.1-8B"}},
      {"model: /nowhere/config.json\n" + data + cluster, {"line 1", "'model'", "/nowhere/config.json"}},
      {"model: ~\n" + data + cluster, {"line 1", "'model' is not text"}},
      {"model: {a: 1}\n" + data + cluster, {"line 1", "'model' is not text"}},
      {data + cluster, {"line 1", "no 'model'"}},
      {head + data + "cluster: {instance: [trn1.33xlarge]}\n",
       {"line 3", "'instance'", "trn1.33xlarge", "trn1.32"}},
      {head + data + "cluster: {instance: [trn1.32xlarge], count: 0}\n", {"line 3", "'count' is '0'"}},
      {head + data + "cluster: {instance: [trn1.32xlarge], count: 8..2}\n", {"line 3", "'count' is '8..2'"}},
      {head + data + "cluster: {instance: [trn1.32xlarge], count: 99999999999999999999}\n",
       {"line 3", "'count'"}},
      {with("fix: {tp: 7}"), {"line 4", "'fix'", "7 does not divide 32 ranks"}},
      {with("fix: {tp: 0}"), {"line 4", "'tp' is '0'"}},
      {with("fix: {tp: 32, pp: 32}"), {"line 4", "'fix'", "1024 does not divide 32 ranks"}},
      {with("fix: {tp: 8, dp: 8}"), {"line 4", "'fix'", "multiply to 64"}},
      {with("fix: {ep: 8}"), {"line 4", "'fix'", "ep 8 of a model without experts"}},
      {with("fix: {micro_batch: 1000}"), {"line 4", "'fix'", "does not divide a global batch of 64"}},
      {with("fix: {zero: 9}"), {"line 4", "'zero' is '9'", "0, 1, 2, 3"}},
      {with("fix: {tensor: 8}"), {"line 4", "'tensor'", "tp"}},
      {with("price: {kind: free}"), {"line 4", "'kind' is 'free'", "on_demand"}},
      {with("price: {as_of: 2026-13}"), {"line 4", "'as_of'", "'2026-13' is not a date"}},
      {with("reliability: {profile: nobody}"), {"line 4", "'profile'", "nobody", "llama3"}},
      {with("reliability: {profile: llama3, restart_s: -5}"), {"line 4", "'restart_s' is '-5'"}},
      {with("reliability: {profile: llama3, spares: 0.5}"), {"line 4", "'spares' is '0.5'"}},
      {with("fix: {schedule: gpip}"), {"line 4", "'schedule' is 'gpip'", "gpipe"}},
      {with("fix: {pp: 1, schedule: zb-ticks}"), {"line 4", "'fix'", "pp is 1, and ZB in ticks"}},
      {with("fix: {pp: 1, vpp: 2}"), {"line 4", "'fix'", "pp is 1, and vpp 2"}},
      {with("fix: {recompute: some}"), {"line 4", "'recompute' is 'some'", "save_qkv_proj"}},
      {with("fix: {recompute: minimal}"), {"line 4", "'fix'", "a policy of MaxText"}},
      {with("fix: {recompute_layers: 2, recompute: none}"), {"line 4", "'fix'", "all blocks or none"}},
      {with("fix: {offload: maybe}"), {"line 4", "'offload' is 'maybe'", "on, off"}},
      {with("stack: none-such"), {"line 4", "'stack'", "none-such", "neuron"}},
      {with("step: train.stablehlo"), {"line 1", "'model' beside 'step'"}},
      {"- a\n- b\n", {"line 1", "not a mapping"}},
      {"", {"not a mapping"}},
      {"model: {a: 1\n", {"no YAML"}},
      {"a: &a [1, 1]\nmodel: *a\n", {"line 1", "'a'"}},
      {"a: " + std::string(5000, '[') + std::string(5000, ']') + "\n", {"no YAML"}},
  };
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "job.yaml";
  for (const Case& each : cases) {
    std::ofstream(path) << each.yaml;
    const Ran ran = run_for_test({"plan", path.c_str(), "--top", "1"});
    EXPECT_EQ(ran.code, 2) << each.yaml.substr(0, 200);
    for (const char* words : each.said) EXPECT_THAT(ran.err, HasSubstr(words)) << each.yaml.substr(0, 200);
  }
  // Nothing is priced from a list that nobody published.
  std::ofstream(path) << head << data << "cluster: {instance: [p4d.24xlarge]}\nprice: {kind: reserved}\n";
  const Ran unpriced = run_for_test({"plan", path.c_str(), "--top", "1", "--json"});
  ASSERT_EQ(unpriced.code, 0) << unpriced.err;
  EXPECT_TRUE(nlohmann::json::parse(unpriced.out)["plans"][0]["usd_per_million_tokens"].is_null());
}

TEST(Plan, TrainsADiffusionTransformer) {
  const Ran ran = run_for_test({"plan", "Stable Diffusion 3 Medium", "--instance", "trn1.32xlarge", "--seq",
                                "4429", "--global-batch", "256", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_NEAR(json["parameters"].get<double>(), 2.08e9, 0.06e9);  // the model's card: 2 billion
  EXPECT_THAT(
      run_for_test({"plan", "SD3-2B", "--instance", "trn1.32xlarge", "--seq", "256", "--global-batch", "32"})
          .err,
      HasSubstr("of text"));
}

// A layer and its gradient, as a step of training.
constexpr const char* kProgram = R"(module @step {
  func.func public @main(%w: tensor<64x128xf32>, %v: tensor<64x128xf32>, %x: tensor<256x64xf32>)
      -> (tensor<64x128xf32>, tensor<64x128xf32>) {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<256x64xf32>, tensor<64x128xf32>) -> tensor<256x128xf32>
    %g = stablehlo.dot_general %x, %h, contracting_dims = [0] x [0]
      : (tensor<256x64xf32>, tensor<256x128xf32>) -> tensor<64x128xf32>
    %m = stablehlo.add %v, %g : tensor<64x128xf32>
    %n = stablehlo.subtract %w, %m : tensor<64x128xf32>
    return %n, %m : tensor<64x128xf32>, tensor<64x128xf32>
  }
})";

TEST(Plan, PlansAProgram) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "step.mlir", page = folder.path() / "plan.html";
  std::ofstream(path) << kProgram;
  const Ran ran = run_for_test({"plan", path.c_str(), "--instance", "trn1.2xlarge", "--compiled", "2",
                                "--explain", "1", "--steps", "1e6", "--html", page.c_str()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* word : {"3 inputs", "$/1000 steps", "hours", "Widest contributor to plan 1's interval",
                           "2 compiled", "where memory is fullest", "ways estimated"})
    EXPECT_THAT(ran.out, HasSubstr(word));
  EXPECT_LE(longest_line(ran.out), 120u);
  std::stringstream html;
  html << std::ifstream(page).rdbuf();
  EXPECT_THAT(html.str(), HasSubstr("interval_by_input"));
}

TEST(Plan, AProgramThatCannotBePlannedIsRefusedByFileLineAndKey) {
  const TemporaryFolderForTest folder;
  const std::string step = folder.path() / "step.mlir", job = folder.path() / "job.yaml";
  std::ofstream(step) << kProgram;
  std::ofstream(folder.path() / "broken.mlir") << "module {\n  func.func @main(%x: tensor<4xf31>) {\n} }";
  std::ofstream(folder.path() / "open.mlir")
      << "module { func.func public @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {\n"
         "  %0 = stablehlo.add %x, %x : tensor<?x4xf32>\n  return %0 : tensor<?x4xf32> } }";
  const std::string on = "cluster: {instance: trn1.2xlarge}\n";
  struct Case {
    std::string yaml;
    std::vector<const char*> said;
  };
  const std::vector<Case> cases = {
      {"step: nowhere.mlir\n" + on, {"line 1, 'step'", "nowhere.mlir", "import.file"}},
      {on + "step: broken.mlir\n", {"line 2, 'step'", "broken.mlir", "f31"}},
      {"step: open.mlir\n" + on, {"line 1, 'step'", "not a number"}},
      {"step: step.mlir\nmodel: Llama-3.1-8B\n" + on, {"line 2", "'model' beside 'step'"}},
      {"step: step.mlir\ndata: {seq: 4096}\n" + on, {"line 2", "'data.seq' beside 'step'"}},
      {"step: step.mlir\nfix: {pp: 2}\n" + on, {"line 2", "'fix.pp' beside 'step'"}},
      {"step: step.mlir\nfix: {dp: 3}\n" + on, {"line 1, 'step'", "dp 3", "input0[0] of 64"}},
      {"step: step.mlir\nfix: {mesh: tp2}\n" + on, {"line 2, 'mesh'", "'tp2'"}},
      {"step: step.mlir\nfix: {mesh: tp=2, shard: {input9: tp}}\n" + on, {"line 2, 'shard'", "input9"}},
      {"step: step.mlir\nfix: {shard: {input0: tp}}\n" + on, {"line 1, 'step'", "no mesh"}},
      {"step: step.mlir\ncluster: {instance: p5.48xlarge}\n", {"line 1, 'step'", "p5.48xlarge"}},
      {"step: step.mlir\ncluster: {instance: trn1.32xlarge, count: 2}\n", {"line 1, 'step'", "one machine"}},
      {"model: Llama-3.1-8B\ndata: {steps: 5}\n" + on, {"line 2", "'data.steps' without 'step'"}},
  };
  for (const Case& each : cases) {
    std::ofstream(job) << each.yaml;
    const Ran ran = run_for_test({"plan", job.c_str()});
    EXPECT_NE(ran.code, 0) << each.yaml << ran.out;
    for (const char* word : each.said) EXPECT_THAT(ran.err, HasSubstr(word)) << each.yaml;
  }
  for (const std::vector<const char*>& more :
       std::vector<std::vector<const char*>>{{"--seq", "4096"},
                                             {"--precision", "fp8"},
                                             {"--serve"},
                                             {"--export", "jax"},
                                             {"--shard", "input0=tp"}}) {
    std::vector<const char*> words = {"plan", step.c_str(), "--instance", "trn1.2xlarge"};
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_THAT(run_for_test(words).err, HasSubstr("plan.program")) << more[0];
  }
  EXPECT_THAT(run_for_test({"plan", "Llama-3.1-8B", "--mesh", "tp=2"}).err, HasSubstr("plan.program"));
}

}  // namespace
}  // namespace opentrn::cli
