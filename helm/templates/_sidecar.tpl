{{/*
The sidecar, for the pods of other charts. Each template takes the values of this chart; a chart that
depends on it with the alias `replay` has them as .Subcharts.replay:

    initContainers:
      {{- include "reasoning-replay.sidecar" .Subcharts.replay | nindent 8 }}
    containers:
      - name: my-agent
        env:
          {{- include "reasoning-replay.sidecarEnv" .Subcharts.replay | nindent 12 }}
*/}}

{{/*
A native sidecar: starts before the app, ends after it, and lets a Job end. Kubernetes 1.29. It has no
preStop: the kubelet sends SIGTERM after the app has ended, and a sleep would only delay the end of a Job.
*/}}
{{- define "reasoning-replay.sidecar" -}}
{{- if semverCompare "<1.29.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "reasoning-replay.sidecar: Kubernetes %s has no sidecar containers, 1.29 or newer has; include reasoning-replay.sidecarClassic under containers" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
- name: {{ .Values.sidecar.name }}
  restartPolicy: Always
{{- include "reasoning-replay.sidecarBody" . | nindent 2 }}
  {{- include "reasoning-replay.checkGrace" (dict "grace" .Values.sidecar.terminationGracePeriodSeconds "preStop" 0 "config" (include "reasoning-replay.sidecarConfig" . | fromYaml) "where" "sidecar.") }}
{{- end -}}

{{/* The base URLs for the app, entries of its container's `env`: of several upstreams, for those with these names. */}}
{{- define "reasoning-replay.sidecarEnv" -}}
{{- $config := include "reasoning-replay.sidecarConfig" . | fromYaml -}}
{{- $address := $config.listen | replace "0.0.0.0:" "127.0.0.1:" | replace "[::]:" "[::1]:" -}}
{{- $url := printf "%s://%s" (ternary "http" "https" (empty (get $config "tls_cert_file"))) $address -}}
{{- $upstreams := get $config "upstreams" | default dict -}}
{{- if not $upstreams }}
- name: OPENAI_BASE_URL
  value: {{ $url }}/v1
{{- end }}
{{- if hasKey $upstreams "openai" }}
- name: OPENAI_BASE_URL
  value: {{ $url }}/openai/v1
{{- end }}
{{- if hasKey $upstreams "anthropic" }}
- name: ANTHROPIC_BASE_URL
  value: {{ $url }}/anthropic
{{- end }}
{{- if hasKey $upstreams "gemini" }}
- name: GOOGLE_GEMINI_BASE_URL
  value: {{ $url }}/gemini
{{- end }}
{{- end -}}

{{/* The pod's grace period in seconds, which the checks of both containers use. */}}
{{- define "reasoning-replay.sidecarGrace" -}}
{{- int .Values.sidecar.terminationGracePeriodSeconds -}}
{{- end -}}

{{/* An ordinary container, the first one in `containers`, for Kubernetes before 1.29. */}}
{{- define "reasoning-replay.sidecarClassic" -}}
{{- $admin := include "reasoning-replay.port" (include "reasoning-replay.sidecarConfig" . | fromYaml).admin_listen -}}
- name: {{ .Values.sidecar.name }}
{{- include "reasoning-replay.sidecarBody" . | nindent 2 }}
  {{- include "reasoning-replay.checkGrace" (dict "grace" .Values.sidecar.terminationGracePeriodSeconds "preStop" .Values.sidecar.preStopSeconds "config" (include "reasoning-replay.sidecarConfig" . | fromYaml) "where" "sidecar.") }}
  lifecycle:
    # The kubelet starts the next containers when this is done.
    postStart:
      exec:
        command:
          - python
          - -c
          - |
            import time, urllib.request as r
            get = r.build_opener(r.ProxyHandler({})).open
            for _ in range(600):
                try:
                    get("http://localhost:{{ $admin }}/readyz", timeout=1)
                    break
                except OSError:
                    time.sleep(0.1)
    # All containers get SIGTERM at the same time: the app still needs the proxy for a while.
    preStop:
      exec:
        command: [python, -c, import time; time.sleep({{ int .Values.sidecar.preStopSeconds }})]
{{- end -}}

{{- define "reasoning-replay.sidecarBody" -}}
{{- $config := include "reasoning-replay.sidecarConfig" . | fromYaml -}}
{{- $_ := include "reasoning-replay.checkSettings" (dict "root" . "config" $config) -}}
{{- $kind := include "reasoning-replay.storeKind" (dict "root" . "config" $config) -}}
{{- $_ = include "reasoning-replay.checkMemory" (dict "config" $config "storeKind" $kind "resources" .Values.sidecar.resources "where" "sidecar.resources") -}}
{{- $_ = include "reasoning-replay.checkVolume" (dict "config" $config "storeKind" $kind "mounts" .Values.sidecar.volumeMounts "wayOut" "mount a volume of the pod with sidecar.volumeMounts") -}}
{{- $_ = include "reasoning-replay.checkListen" (dict "config" $config "open" (list "admin_listen")) }}
image: {{ include "reasoning-replay.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve]
{{- include "reasoning-replay.env" (dict "root" . "config" $config "extraEnv" .Values.sidecar.extraEnv) }}
ports:
  - name: admin
    containerPort: {{ include "reasoning-replay.port" $config.admin_listen }}
startupProbe:
  httpGet: {path: /readyz, port: admin}
  {{- toYaml .Values.startupProbe | nindent 2 }}
livenessProbe:
  httpGet: {path: /livez, port: admin}
  {{- toYaml .Values.livenessProbe | nindent 2 }}
resources:
  {{- toYaml .Values.sidecar.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- with .Values.sidecar.volumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
