{{/* What the schema cannot say: values that do not go together. Each names both, and a way out. */}}

{{/* Settings of either way to run it: (dict "root" $ "config" mapping). */}}
{{- define "reasoning-replay.checkSettings" -}}
{{- $keys := .root.Values.secrets.keys | default dict -}}
{{- $config := .config -}}
{{- range $name := list "scope_secret" "admin_token" "store_password" "encryption_keys" -}}
{{- if hasKey $config $name -}}
{{- fail (printf "config.%s: a secret has no place in values; put it into a Secret, and name that in secrets.existingSecret and its key in secrets.keys.%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name := list "store_url" "upstream_proxy" -}}
{{- if regexMatch "//[^/?#]*@|[?&]([a-z_]*password)=" (get $config $name | default "") -}}
{{- fail (printf "config.%s: holds a user or a password, which have no place in values; put it into a Secret, and name that in secrets.existingSecret and its key in secrets.keys.%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $key := $keys -}}
{{- if hasKey $config $name -}}
{{- fail (printf "config.%s, secrets.keys.%s: both are set; keep one" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and $keys (not .root.Values.secrets.existingSecret) -}}
{{- fail "secrets.keys: no Secret is named that has them; set secrets.existingSecret" -}}
{{- end -}}
{{- if and .root.Values.secrets.existingSecret (not $keys) -}}
{{- fail "secrets.existingSecret: nothing is taken from it; name settings and their keys in secrets.keys, such as store_url: store-url" -}}
{{- end -}}
{{- end -}}

{{/* memory, sqlite or redis; redis, too, where the address is in a Secret. */}}
{{- define "reasoning-replay.storeKind" -}}
{{- $url := get .config "store_url" | default "memory://" -}}
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

{{/* Bytes that a quantity such as 1.5Gi or 500M means. */}}
{{- define "reasoning-replay.bytes" -}}
{{- $text := include "reasoning-replay.text" . -}}
{{- $number := regexFind "^[0-9.]+" $text | float64 -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- if not (hasKey $units $unit) -}}
{{- fail (printf "resources.limits.memory: %q is no amount of memory; write 512Mi or 1Gi" $text) -}}
{{- end -}}
{{- mulf $number (get $units $unit) | floor | int64 -}}
{{- end -}}

{{/*
MiB that the process needs at least: 64, and what it keeps by its settings:
(dict "config" mapping "storeKind" as above).
*/}}
{{- define "reasoning-replay.leastMiB" -}}
{{- $defaults := dict "recent_max_bytes" 33554432 "memory_max_bytes" 268435456 -}}
{{- $config := mergeOverwrite $defaults .config -}}
{{- $stored := ternary $config.memory_max_bytes 0 (eq .storeKind "memory") -}}
{{- $kept := divf (addf $config.recent_max_bytes $stored) 1048576 | ceil | int -}}
{{- add 64 $kept -}}
{{- end -}}

{{/* (dict "config" mapping "storeKind" as above "resources" of the container "where" in values) */}}
{{- define "reasoning-replay.checkMemory" -}}
{{- $limit := dig "limits" "memory" "" (.resources | default dict) -}}
{{- $least := include "reasoning-replay.leastMiB" . | int -}}
{{- if $limit -}}
{{- if lt (include "reasoning-replay.bytes" $limit | int64) (mul $least 1048576) -}}
{{- fail (printf "%s.limits.memory: %v is less than %d MiB, which the process and what it keeps need; raise it, or lower memory_max_bytes (memory://) or recent_max_bytes" .where $limit $least) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "config" mapping "storeKind" as above "mounts" of the container "wayOut" what to do) */}}
{{- define "reasoning-replay.checkVolume" -}}
{{- if eq .storeKind "sqlite" -}}
{{- $path := regexReplaceAll "^sqlite://|[?].*$" .config.store_url "" -}}
{{- $mounted := false -}}
{{- range .mounts -}}
{{- $mounted = or $mounted (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $path) -}}
{{- end -}}
{{- if not $mounted -}}
{{- fail (printf "config.store_url: %s is on no volume, and the root file system is read-only; %s" $path .wayOut) -}}
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
{{- fail (printf "%d replicas cannot share memory://, which is each one's own, so what is given back would be up to chance; use Redis (config.store_url, or secrets.keys.store_url), or one replica" $most) -}}
{{- end -}}
{{- if and (gt $most 1) (eq $kind "sqlite") -}}
{{- fail (printf "%d replicas cannot share sqlite://, a file of one machine; use Redis (config.store_url, or secrets.keys.store_url), or one replica" $most) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) $most) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than maxReplicas %d" (int .Values.autoscaling.minReplicas) $most) -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not (or .Values.autoscaling.targetCPUUtilizationPercentage .Values.autoscaling.targetInFlight)) -}}
{{- fail "autoscaling: nothing to go by; set targetCPUUtilizationPercentage or targetInFlight" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled .Values.autoscaling.targetCPUUtilizationPercentage (not (or (dig "requests" "cpu" "" (.Values.resources | default dict)) (dig "limits" "cpu" "" (.Values.resources | default dict)))) -}}
{{- fail "autoscaling.targetCPUUtilizationPercentage: a share of resources.requests.cpu, which is not set; set it, or 0 here" -}}
{{- end -}}
{{- if and .Values.persistence.enabled (eq $kind "memory") -}}
{{- fail (printf "persistence.enabled: memory:// keeps nothing on a volume; set config.store_url to sqlite://%s/replay.db" (trimSuffix "/" .Values.persistence.mountPath)) -}}
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

{{/* (dict "grace" and "preStop" in seconds "config" mapping "where" ahead of their names in values) */}}
{{- define "reasoning-replay.checkGrace" -}}
{{- $drain := ternary (get .config "drain_s") 600 (hasKey .config "drain_s") -}}
{{- $needed := addf (float64 $drain) (float64 .preStop) -}}
{{- if le (float64 .grace) $needed -}}
{{- fail (printf "%sterminationGracePeriodSeconds: %v is not more than preStopSeconds %v and drain_s %v together, so streams would be killed; set at least %v" .where (int .grace) .preStop $drain (addf $needed 1)) -}}
{{- end -}}
{{- end -}}

{{/* (dict "config" mapping "open" names of what must be reached from outside the pod) */}}
{{- define "reasoning-replay.checkListen" -}}
{{- $config := .config -}}
{{- $open := .open -}}
{{- range $name := list "listen" "admin_listen" -}}
{{- $address := get $config $name -}}
{{- $port := include "reasoning-replay.port" $address -}}
{{- if not (regexMatch `^(\[[0-9a-fA-F:.]+\]|[^\s:\[\]/@]+):0*[1-9][0-9]{0,4}$` $address) -}}
{{- fail (printf "config.%s: %q is no host and port that others can go by; write 0.0.0.0:8080 or [::]:8080" $name $address) -}}
{{- end -}}
{{- if and (has $name $open) (regexMatch `^(127\.|localhost:|\[::1\]:)` $address) -}}
{{- fail (printf "config.%s: %s is loopback, which nobody outside the pod reaches, its probes included; use 0.0.0.0:%s" $name $address $port) -}}
{{- end -}}
{{- end -}}
{{- if eq (include "reasoning-replay.port" $config.listen) (include "reasoning-replay.port" $config.admin_listen) -}}
{{- fail (printf "config.admin_listen: the same port as listen, %s; give it one of its own" $config.listen) -}}
{{- end -}}
{{- end -}}
