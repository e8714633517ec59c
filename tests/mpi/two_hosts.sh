#!/bin/bash
# mpirun over two hosts that one machine plays: each has a network, a host name and a /dev/shm of its own, so what their
# processes send each other crosses TCP between the two. Nothing of the machine itself is changed: all of it is in
# namespaces that end with the command.
#
#     two_hosts.sh SLOTS WORDS...     WORDS are mpirun's; SLOTS processes on each host
#
# The last line on stderr: "crossed RECEIVED SENT", bytes over the link of the first host.
set -euo pipefail

if [ "${TWO_HOSTS_INSIDE:-}" = "" ]; then
  as_root=(); [ "$(id -u)" = 0 ] || as_root=(--map-root-user --user)
  TWO_HOSTS_INSIDE=1 exec unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi

slots=$1; shift
at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
ip link set lo up
for host in 1 2; do
  unshare --net --uts --mount bash -c "
    hostname host$host; mount -t tmpfs tmpfs /dev/shm; ip link set lo up
    echo \$\$ >$at/started$host; mv $at/started$host $at/pid$host; exec sleep infinity" </dev/null >/dev/null 2>&1 &
done
for host in 1 2; do while [ ! -e "$at/pid$host" ]; do sleep 0.05; done; done
ip link add name link1 type veth peer name link2
for host in 1 2; do
  pid=$(cat "$at/pid$host")
  ip link set link$host netns "$pid"
  nsenter --target "$pid" --net ip address add 10.77.0.$host/24 dev link$host
  nsenter --target "$pid" --net ip link set link$host up
done

# What mpirun calls in place of ssh: agent HOST COMMAND...
cat >"$at/agent" <<AGENT
#!/bin/bash
pid=\$(cat $at/pid\${1##*.}); shift
exec nsenter --target \$pid --net --uts --mount bash -c "\$*"
AGENT
chmod +x "$at/agent"

on_first=(nsenter --target "$(cat "$at/pid1")" --net --uts --mount)
status=0
"${on_first[@]}" mpirun --mca plm_rsh_agent "$at/agent" --host 10.77.0.1:"$slots",10.77.0.2:"$slots" \
  --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --mca btl self,vader,tcp \
  -x PATH -x PYTHONPATH -x OPENTRN_MPI_TIMEOUT_S "$@" || status=$?
count() { "${on_first[@]}" awk -v field="$1" '/link1:/ { sub(/.*:/, ""); print $field }' /proc/net/dev; }
echo "crossed $(count 1) $(count 9)" >&2
exit $status
