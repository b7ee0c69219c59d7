#!/bin/busybox sh
# The first process of the microVM: mounts the disks, runs the command in /case and turns the machine
# off. After a failure it halts, so that the time limit of the benchmark ends the machine.
busybox() { /bin/busybox "$@" 2>/dev/null; }

busybox mount -t devtmpfs dev /dev
for module in virtio_ring virtio virtio_mmio virtio_blk; do busybox insmod "/lib/$module.ko"; done
# No conversion of line ends, and no echo of the input.
busybox stty -echo -opost <>/dev/ttyS0 >&0
busybox mount -t ext4 -o ro /dev/vda /new
busybox mount -t ext4 -o ro /dev/vdb /skills
busybox mount -t ext4 /dev/vdc /new/workspace
. /case
busybox mount --bind "/skills/$skill" /new/skill
busybox mount -t proc proc /new/proc
busybox mount -t devtmpfs dev /new/dev
busybox mount -t tmpfs tmp /new/tmp
if busybox chroot /new /usr/bin/env -i -C /workspace PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 "$@" <>/dev/ttyS0 >/dev/ttyS0; then
  busybox reboot -f
fi
while :; do busybox sleep 1000; done
