{{/*
Settings become environment variables. The image's variables (REPLAY_LISTEN) would override a file of
settings, and a sidecar would need a ConfigMap. A changed setting also changes the pod.
*/}}

{{/* Settings of the gateway as YAML: `config`. Defaults: open listen addresses, and a start that needs a store that is named. */}}
{{- define "reasoning-replay.gatewayConfig" -}}
{{- $defaults := dict "listen" "0.0.0.0:8080" "admin_listen" "0.0.0.0:9090" -}}
{{- if ne (include "reasoning-replay.storeKind" (dict "root" . "config" .Values.config)) "memory" -}}
{{- $_ := set $defaults "require_store" true -}}
{{- end -}}
{{- include "reasoning-replay.over" (list $defaults .Values.config) -}}
{{- end -}}

{{- define "reasoning-replay.sidecarConfig" -}}
{{- include "reasoning-replay.over" (list .Values.config .Values.sidecar.config) -}}
{{- end -}}

{{/* Merged mappings as YAML: later ones win, also with a 0 or a false, which `merge` would ignore. */}}
{{- define "reasoning-replay.over" -}}
{{- $all := dict -}}
{{- range . -}}
{{- range $name, $value := . -}}
{{- $_ := set $all $name $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/*
One value as the proxy reads it: YAML turns `on` into a boolean, and 67108864 into 6.7108864e+07.
`upstreams` becomes JSON, with such texts.
*/}}
{{- define "reasoning-replay.text" -}}
{{- if kindIs "map" . -}}
{{- $texts := dict -}}
{{- range $name, $own := . -}}
{{- $one := dict -}}
{{- range $key, $value := $own -}}
{{- $_ := set $one $key (include "reasoning-replay.text" $value) -}}
{{- end -}}
{{- $_ := set $texts $name $one -}}
{{- end -}}
{{- toJson $texts -}}
{{- else if kindIs "bool" . -}}
{{- ternary "on" "off" . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* A size in bytes or a duration in seconds, from a setting with or without a unit: 64MiB, 10m, 600. */}}
{{- define "reasoning-replay.amount" -}}
{{- $text := include "reasoning-replay.text" . -}}
{{- $factors := dict "" 1 "B" 1 "kB" 1e3 "MB" 1e6 "GB" 1e9 "TB" 1e12 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 "TiB" 1099511627776 "ms" 0.001 "s" 1 "m" 60 "h" 3600 "d" 86400 -}}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (get $factors (regexFind "[A-Za-z]*$" $text) | float64) -}}
{{- end -}}

{{/* The paths of all upstreams as JSON: "" for the only one, none if they are in a Secret. (dict "root" $ "config" mapping) */}}
{{- define "reasoning-replay.paths" -}}
{{- $paths := list -}}
{{- range keys (get .config "upstreams" | default dict) | sortAlpha -}}
{{- $paths = append $paths (print "/" .) -}}
{{- end -}}
{{- if not (hasKey (.root.Values.secrets.keys | default dict) "upstreams") -}}
{{- $paths = $paths | default (list "") -}}
{{- end -}}
{{- toJson $paths -}}
{{- end -}}

{{/* The addresses of all upstreams, and of the HTTP proxies on the way, as JSON. */}}
{{- define "reasoning-replay.upstreamUrls" -}}
{{- $urls := list (get . "upstream_url" | default "") (get . "upstream_proxy" | default "") -}}
{{- range get . "upstreams" | default dict -}}
{{- $urls = concat $urls (list (get . "url" | default "") (get . "proxy" | default "")) -}}
{{- end -}}
{{- toJson $urls -}}
{{- end -}}

{{/* The port: the part after the last colon of host:port. */}}
{{- define "reasoning-replay.port" -}}
{{- splitList ":" . | last -}}
{{- end -}}

{{/* The ports of all hosts in a URL, separated by commas. */}}
{{- define "reasoning-replay.portsOf" -}}
{{- $hosts := regexReplaceAll `^[^:]*://([^/?#]*@)?|\[[^]]*\]|[/?#].*$` . "" -}}
{{- regexFindAll ":[0-9]+" $hosts -1 | join "" | trimPrefix ":" | replace ":" "," -}}
{{- end -}}

{{/* The members `env` and `envFrom` of one container: (dict "root" $ "config" mapping "extraEnv" list). */}}
{{- define "reasoning-replay.env" -}}
{{- $root := .root -}}
{{- with $root.Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
{{- range $name, $value := .config }}
  - name: REPLAY_{{ upper $name }}
    value: {{ include "reasoning-replay.text" $value | quote }}
{{- end }}
{{- range $name, $key := $root.Values.secrets.keys }}
  - name: REPLAY_{{ upper $name }}
    valueFrom:
      secretKeyRef:
        name: {{ $root.Values.secrets.existingSecret | quote }}
        key: {{ $key | quote }}
{{- end }}
{{- with concat ($root.Values.extraEnv | default list) (.extraEnv | default list) }}
{{- $known := include "reasoning-replay.variables" $root | trim | splitList "\n" }}
{{- range . }}
{{- if and (hasPrefix "REPLAY_" .name) (not (hasPrefix "REPLAY_TEST_" .name)) (not (has (upper .name) $known)) }}
{{- fail (printf "extraEnv: %s is no variable of a setting, so the proxy would not start; write settings into config, secrets into secrets.keys, and see docs/configuration.md for the names" .name) }}
{{- end }}
{{- end }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
