{{/* Names and labels. Those that begin with reasoning-replay. are defined for other charts, too. */}}

{{- define "reasoning-replay.name" -}}
{{- .Values.nameOverride | default "reasoning-replay" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough that what names put behind it (-admin) fits. */}}
{{- define "reasoning-replay.fullname" -}}
{{- $name := include "reasoning-replay.name" . -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "reasoning-replay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "reasoning-replay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of the pods that serve: the test's pod has the same name and instance. */}}
{{- define "reasoning-replay.gatewayLabels" -}}
{{ include "reasoning-replay.selectorLabels" . }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "reasoning-replay.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{ include "reasoning-replay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "reasoning-replay-%s" .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "reasoning-replay.serviceAccountName" -}}
{{- $made := ternary (include "reasoning-replay.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $made -}}
{{- end -}}

{{- define "reasoning-replay.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The line that apps set. */}}
{{- define "reasoning-replay.clientsUrl" -}}
{{- $config := include "reasoning-replay.gatewayConfig" . | fromYaml -}}
{{- $scheme := ternary "http" "https" (empty (get $config "tls_cert_file")) -}}
{{- printf "%s://%s.%s:%v/v1" $scheme (include "reasoning-replay.fullname" .) .Release.Namespace (include "reasoning-replay.text" .Values.service.port) -}}
{{- end -}}
