#!/bin/bash
# The entry point of a training job, on AWS Batch, ECS, ParallelCluster (Slurm) and SageMaker alike: finds the nodes of
# the job and the NeuronCores of this one, and starts torchrun. Words are those of the training script.
#
# TRAIN names the script; without it the example that lies beside this folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
train=${TRAIN:-$here/../ddp_torch.py}
port=${MASTER_PORT:-29400}

# Nodes: Slurm's variables, AWS Batch's of a multi-node job, SageMaker's; elsewhere this node alone.
nodes=1 node=0 main=127.0.0.1
if [[ -n ${SLURM_JOB_NUM_NODES:-} ]]; then
  nodes=$SLURM_JOB_NUM_NODES node=${SLURM_NODEID:-0}
  if ((nodes > 1)); then read -r main < <(scontrol show hostnames "$SLURM_JOB_NODELIST"); fi
elif [[ -n ${AWS_BATCH_JOB_NUM_NODES:-} ]]; then
  nodes=$AWS_BATCH_JOB_NUM_NODES node=$AWS_BATCH_JOB_NODE_INDEX
  main=${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-127.0.0.1} # the main node itself has no such variable
elif [[ -n ${SM_HOSTS:-} ]]; then
  read -r nodes node main < <(python3 -c '
import json, os
hosts = sorted(json.loads(os.environ["SM_HOSTS"]))
print(len(hosts), hosts.index(os.environ["SM_CURRENT_HOST"]), hosts[0])')
fi

# A node alone needs no name of its own to be found.
if ((nodes == 1)); then main=127.0.0.1; fi

# Cores: what the scheduler gave this job, else all that neuron-ls lists.
if [[ -n ${NEURON_RT_VISIBLE_CORES:-} ]]; then
  cores=$(python3 -c '
import os
parts = (part.partition("-") for part in os.environ["NEURON_RT_VISIBLE_CORES"].split(","))
print(sum(int(end or begin) - int(begin) + 1 for begin, _, end in parts))')
elif [[ -n ${NEURON_RT_NUM_CORES:-} ]]; then
  cores=$NEURON_RT_NUM_CORES
else
  cores=$(neuron-ls -j | python3 -c 'import json, sys; print(sum(row["nc_count"] for row in json.load(sys.stdin)))')
fi

exec torchrun --nnodes "$nodes" --node-rank "$node" --master-addr "$main" --master-port "$port" \
  --nproc-per-node "$cores" "$train" "$@"
