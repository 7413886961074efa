{{/* Checks of values that contradict each other, which the schema cannot express. Each message names both values and a way out. */}}

{{/* Settings of the gateway or of the sidecar: (dict "root" $ "config" mapping). */}}
{{- define "reasoning-replay.checkSettings" -}}
{{- $keys := .root.Values.secrets.keys | default dict -}}
{{- $config := .config -}}
{{- range $name := list "scope_secret" "admin_token" "store_password" "encryption_keys" -}}
{{- if hasKey $config $name -}}
{{- fail (printf "config.%s: a secret must not be in values; put it into a Secret, and set secrets.existingSecret to its name and secrets.keys.%s to its key" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "store_url" "upstream_proxy" -}}
{{- if regexMatch "//[^/?#@]*:[^/?#]*@|[?&]([a-z_]*password)=" (get $config $name | default "") -}}
{{- fail (printf "config.%s: has a password, which must not be in values; put it into a Secret, and set secrets.existingSecret to its name and secrets.keys.%s to its key" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $own := get $config "upstreams" | default dict -}}
{{- if regexMatch "//[^/?#@]*:[^/?#]*@" (get $own "proxy" | default "") -}}
{{- fail (printf "config.upstreams.%s.proxy: has a password, which must not be in values; put the map of upstreams into a Secret, and set secrets.existingSecret to its name and secrets.keys.upstreams to its key" $name) -}}
{{- end -}}
{{- end -}}
{{- if and (or (get $config "upstreams") (hasKey $keys "upstreams")) (hasKey $config "upstream_url") -}}
{{- fail "config.upstream_url, upstreams: both are set; keep one" -}}
{{- end -}}
{{- range $name, $key := $keys -}}
{{- if hasKey $config $name -}}
{{- fail (printf "config.%s, secrets.keys.%s: both are set; keep one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and $keys (not .root.Values.secrets.existingSecret) -}}
{{- fail "secrets.keys: the name of the Secret is missing; set secrets.existingSecret" -}}
{{- end -}}
{{- if ne (empty (get $config "tls_cert_file")) (empty (get $config "tls_key_file")) -}}
{{- fail "config.tls_cert_file, config.tls_key_file: only one is set; set both or none" -}}
{{- end -}}
{{- if and .root.Values.secrets.existingSecret (not $keys) -}}
{{- fail "secrets.existingSecret: no key of it is used; set secrets.keys, such as store_url: store-url" -}}
{{- end -}}
{{- end -}}

{{/* The kind of store: memory, sqlite or redis; also redis if the address is in a Secret. */}}
{{- define "reasoning-replay.storeKind" -}}
{{- $url := get (.config | default dict) "store_url" | default "memory://" -}}
{{- if hasKey (.root.Values.secrets.keys | default dict) "store_url" -}}
redis
{{- else if hasPrefix "memory:" $url -}}
memory
{{- else if hasPrefix "sqlite:" $url -}}
sqlite
{{- else -}}
redis
{{- end -}}
{{- end -}}

{{/* A quantity such as 1.5Gi or 500M in bytes. */}}
{{- define "reasoning-replay.bytes" -}}
{{- $text := include "reasoning-replay.text" . -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $units $unit) -}}
{{- fail (printf "resources: %q is not an amount of memory; write 512Mi or 1Gi" $text) -}}
{{- end -}}
{{- mulf $number (get $units $unit) | floor | int64 -}}
{{- end -}}

{{/*
The least memory of the process in MiB: 64, plus the memory store and the cache by its settings:
(dict "config" mapping "storeKind" as above).
*/}}
{{- define "reasoning-replay.leastMiB" -}}
{{- $defaults := dict "local_max_bytes" 92274688 "store_max_bytes" 268435456 -}}
{{- $config := mergeOverwrite $defaults .config -}}
{{- $stored := ternary (include "reasoning-replay.amount" $config.store_max_bytes) "0" (eq .storeKind "memory") | float64 -}}
{{- $kept := divf (addf (include "reasoning-replay.amount" $config.local_max_bytes | float64) $stored) 1048576 | ceil | int -}}
{{- add 64 $kept -}}
{{- end -}}

{{/* (dict "config" mapping "storeKind" as above "resources" of the container "where" in values) */}}
{{- define "reasoning-replay.checkMemory" -}}
{{- $limit := dig "limits" "memory" "" (.resources | default dict) -}}
{{- $least := include "reasoning-replay.leastMiB" . | int -}}
{{- if $limit -}}
{{- if lt (include "reasoning-replay.bytes" $limit | int64) (mul $least 1048576) -}}
{{- fail (printf "%s.limits.memory: %v is less than %d MiB, which the process and its stored data need; raise it, or lower store_max_bytes (memory://) or local_max_bytes" .where $limit $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "config" mapping "storeKind" as above "mounts" of the container "wayOut" the end of the message) */}}
{{- define "reasoning-replay.checkVolume" -}}
{{- if eq .storeKind "sqlite" -}}
{{- $path := regexReplaceAll "^sqlite://|[?].*$" .config.store_url "" -}}
{{- $mounted := false -}}
{{- range .mounts -}}
{{- $mounted = or $mounted (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $path) -}}
{{- end -}}
{{- if not $mounted -}}
{{- fail (printf "config.store_url: %s is not on a volume, and the root file system is read-only; %s" $path .wayOut) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "reasoning-replay.checkGateway" -}}
{{- $config := include "reasoning-replay.gatewayConfig" . | fromYaml -}}
{{- $kind := include "reasoning-replay.storeKind" (dict "root" . "config" $config) -}}
{{- $most := ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled | int -}}
{{- include "reasoning-replay.checkSettings" (dict "root" . "config" $config) -}}
{{- include "reasoning-replay.checkMemory" (dict "config" $config "storeKind" $kind "resources" .Values.resources "where" "resources") -}}
{{- if and (gt $most 1) (eq $kind "memory") -}}
{{- fail (printf "%d replicas cannot share memory://, because each has its own memory and would inject only what it captured itself; use Redis (config.store_url, or secrets.keys.store_url), or one replica" $most) -}}
{{- end -}}
{{- if and (gt $most 1) (eq $kind "sqlite") -}}
{{- fail (printf "%d replicas cannot share sqlite://, which is a file on one machine; use Redis (config.store_url, or secrets.keys.store_url), or one replica" $most) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) $most) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than maxReplicas %d" (int .Values.autoscaling.minReplicas) $most) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not (or .Values.autoscaling.targetCPUUtilizationPercentage .Values.autoscaling.targetInFlight)) -}}
{{- fail "autoscaling: no target; set targetCPUUtilizationPercentage or targetInFlight" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled .Values.autoscaling.targetCPUUtilizationPercentage (not (or (dig "requests" "cpu" "" (.Values.resources | default dict)) (dig "limits" "cpu" "" (.Values.resources | default dict)))) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage: is a share of resources.requests.cpu, which is not set; set the request, or set this to 0" -}}
{{- end -}}
{{- if and .Values.persistence.enabled (eq $kind "memory") -}}
{{- fail (printf "persistence.enabled: memory:// does not use a volume; set config.store_url to sqlite://%s/replay.db" (trimSuffix "/" .Values.persistence.mountPath)) -}}
{{- end -}}
{{- $fewest := ternary .Values.autoscaling.minReplicas .Values.replicaCount .Values.autoscaling.enabled -}}
{{- if and .Values.pdb.enabled .Values.pdb.minAvailable $fewest -}}
{{- $text := include "reasoning-replay.text" .Values.pdb.minAvailable -}}
{{- $part := divf (mulf (trimSuffix "%" $text | float64) $fewest) 100 | ceil -}}
{{- if ge (ternary $part (float64 $text) (hasSuffix "%" $text)) (float64 $fewest) -}}
{{- fail (printf "pdb.minAvailable: %s of %d replicas must stay, so maintenance could never stop a pod; lower it, or use pdb.maxUnavailable" $text (int $fewest)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail (printf "service.nodePort: %v has no meaning with service.type ClusterIP; set the type to NodePort or LoadBalancer" .Values.service.nodePort) -}}
{{- end -}}
{{- if and (or .Values.service.loadBalancerIP .Values.service.loadBalancerSourceRanges) (ne .Values.service.type "LoadBalancer") -}}
{{- fail (printf "service.loadBalancerIP, service.loadBalancerSourceRanges: have no meaning with service.type %s; set the type to LoadBalancer" .Values.service.type) -}}
{{- end -}}
{{- if and (eq .Values.dnsPolicy "None") (not (get (.Values.dnsConfig | default dict) "nameservers")) -}}
{{- fail "dnsPolicy: None resolves no name by itself; set dnsConfig.nameservers" -}}
{{- end -}}
{{- $mounts := .Values.extraVolumeMounts -}}
{{- if .Values.persistence.enabled -}}
{{- $mounts = append $mounts (dict "mountPath" .Values.persistence.mountPath) -}}
{{- end -}}
{{- $wayOut := printf "set persistence.enabled, and a path under persistence.mountPath %s" .Values.persistence.mountPath -}}
{{- include "reasoning-replay.checkVolume" (dict "config" $config "storeKind" $kind "mounts" $mounts "wayOut" $wayOut) -}}
{{- include "reasoning-replay.checkGrace" (dict "grace" .Values.terminationGracePeriodSeconds "preStop" .Values.preStopSeconds "config" $config "where" "") -}}
{{- include "reasoning-replay.checkListen" (dict "config" $config "open" (list "listen" "admin_listen")) -}}
{{- end -}}

{{/* (dict "grace" and "preStop" in seconds "config" mapping "where" the prefix of their names in values) */}}
{{- define "reasoning-replay.checkGrace" -}}
{{- $drain := ternary (get .config "drain_s") 600 (hasKey .config "drain_s") -}}
{{- $needed := addf (include "reasoning-replay.amount" $drain | float64) (float64 .preStop) -}}
{{- if le (float64 .grace) $needed -}}
{{- fail (printf "%sterminationGracePeriodSeconds: %v is not more than preStopSeconds %v plus drain_s %v, so streams would be killed; set at least %v" .where (int .grace) .preStop $drain (addf $needed 1 | ceil | int64)) -}}
{{- end -}}
{{- end -}}

{{/* (dict "config" mapping "open" names of the addresses that must be reachable from outside the pod) */}}
{{- define "reasoning-replay.checkListen" -}}
{{- $config := .config -}}
{{- $open := .open -}}
{{- range $name := list "listen" "admin_listen" -}}
{{- $address := get $config $name -}}
{{- $port := include "reasoning-replay.port" $address -}}
{{- if not (regexMatch `^(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/@]+):0*[1-9][0-9]{0,4}$` $address) -}}
{{- fail (printf "config.%s: %q is not a host with a fixed port; write 0.0.0.0:8080 or [::]:8080" $name $address) -}}
{{- end -}}
{{- if and (has $name $open) (regexMatch `^(127\.|localhost:|\[::1\]:)` $address) -}}
{{- fail (printf "config.%s: %s is loopback, which clients and probes outside the pod cannot reach; use 0.0.0.0:%s" $name $address $port) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "reasoning-replay.port" $config.listen) (include "reasoning-replay.port" $config.admin_listen) -}}
{{- fail (printf "config.admin_listen: has the same port as listen, %s; use another port" $config.listen) -}}
{{- end -}}
{{- end -}}
